"""2,000 steps on 4 ranks, a fault every 200: the weights are those of a run that nothing happened to.

SOAK_STEPS=400: fewer steps, and faults closer together.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import slicewise as sw
from tests.distributed.soak import FAULTS, network
from tests.machines import tier, write_cores

STEPS, RANKS = int(os.environ.get("SOAK_STEPS", 2000)), 4
APART = STEPS // 10
BOUND_S = 1500

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2 * BOUND_S),
    pytest.mark.skipif(sys.platform != "linux", reason="reads what a process holds from /proc"),
]


def _run(folder: Path, plan: Path, *options: object) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    command += ["--max-restarts", "20", "--monitor-interval", "0.2", str(Path(__file__).with_name("soak.py"))]
    command += [
        str(folder),
        "--plan",
        str(plan),
        "--steps",
        str(STEPS),
        "--save-every",
        str(APART // 5),
        *map(str, options),
    ]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # torch 2.13: ranks would meet those of the last start
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def _notes(folder: Path) -> list[list[dict[str, Any]]]:
    files = [folder / f"notes-{rank}.jsonl" for rank in range(RANKS)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_a_fault_every_200_steps_changes_no_weight_and_nothing_grows(tmp_path: Path) -> None:
    cluster = write_cores(tmp_path / "four.toml", tier("between"), tier("within"))
    plan = tmp_path / "plan.json"
    sample = torch.zeros(2, 1, 8, 8)
    sw.plan(network(), cluster, sample=sample, batch=16, strategy="data+filter").save(plan)
    _run(tmp_path / "straight", plan)
    _run(tmp_path / "faults", plan, "--faults", APART)
    straight, faulty = (torch.load(tmp_path / name / "weights.pt") for name in ("straight", "faults"))
    assert all(torch.equal(straight[name], value) for name, value in faulty.items())
    happened = [note for notes in _notes(tmp_path / "faults") for note in notes if "fault" in note]
    assert sorted(note["step"] for note in happened) == list(range(APART, STEPS, APART))
    assert {note["fault"] for note in happened} == set(FAULTS)
    begins = [note for note in _notes(tmp_path / "faults")[0] if "begin" in note]
    print(f"started at steps {[note['begin'] for note in begins]}")
    assert sum(note["skipped"] for note in begins) == 1
    assert any("not saved" in note for note in _notes(tmp_path / "faults")[0])
    stalls = [note["stalled"] for notes in _notes(tmp_path / "faults") for note in notes if "stalled" in note]
    assert sum(told.endswith("is stopped (SIGSTOP?)") for told in stalls) == 2
    for notes in _notes(tmp_path / "straight"):
        early, late = (note for note in notes if "threads" in note)
        print(f"after {early['step']} and {late['step']} steps: {early}, {late}")
        assert (late["threads"], late["files"]) == (early["threads"], early["files"])
        assert late["memory_kb"] < 1.05 * early["memory_kb"]
