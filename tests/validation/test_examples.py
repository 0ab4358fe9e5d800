"""The examples do what they say."""

import contextlib
import difflib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.campaigns import LONG
from tests.validation.commands import slicewise

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUNS = 'in ("data", "pipeline", "layerwise"):'


def test_the_two_training_scripts_differ_by_one_line() -> None:
    ddp, sliced = ((EXAMPLES / f"train_{name}.py").read_text().splitlines() for name in ("ddp", "slicewise"))
    changed = [line for line in difflib.ndiff(ddp, sliced) if line[0] in "+-"]
    assert len(changed) == 2
    assert "DistributedDataParallel(model)" in changed[0]
    assert "slicewise.parallelize(model," in changed[1]


@pytest.mark.long
def test_the_changed_script_learns_the_digits_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    job = ("digits.py:network", "--cluster", "p100-4x4", "--devices", 2, "--batch", 64)
    assert slicewise("plan", *job, "-o", "build/digits.json", cache=tmp_path).returncode == 0
    script, whole = tmp_path / "train_slicewise.py", (EXAMPLES / "train_slicewise.py").read_text()
    script.write_text(whole.replace("EPOCHS = 64, 8", "EPOCHS = 64, 1"))
    _torchrun(tmp_path, "train_slicewise.py")
    script.write_text(whole.replace("EPOCHS = 64, 8", "EPOCHS = 64, 3"))
    told = _torchrun(tmp_path, "train_slicewise.py", "--resume")
    assert re.findall(r"epoch (\d+)", told) == ["1", "2"]
    assert _last_share(told) > 95.0


@pytest.mark.long
def test_a_volume_too_large_for_one_device_is_segmented_on_two(tmp_path: Path) -> None:
    job = ("unet3d", "--input", "1x48x48x48", "--batch", 1, "--optimizer", "adam", "--memory-limit", "100MB")
    refused = slicewise("plan", *job, "--cluster", "p100-4x4", "--devices", 1, cache=tmp_path)
    assert refused.returncode == 1
    assert "no plan fits" in refused.stderr
    plan = tmp_path / "volume.json"
    assert slicewise("plan", *job, "--cluster", "p100-4x4", "--devices", 2, "-o", plan, cache=tmp_path).returncode == 0
    job_options = ("--plan", str(plan), "--volumes", "6", "--checkpoint", str(tmp_path / "kept"))
    told = _torchrun(tmp_path, str(EXAMPLES / "segment_volume.py"), *job_options)
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", told)]
    assert losses[-1] < 0.9 * losses[0]
    (peak,) = re.findall(r"(\d+) MB of live tensors", told)
    assert int(peak) < 100


@pytest.mark.long  # their packages take long to import
@pytest.mark.parametrize("stack", ["lightning", "accelerate"])
def test_the_digits_are_learnt_under_other_stacks(stack: str, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    for name in ("digits.py", f"train_{stack}.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    job = (tmp_path / "digits.py:network", "--cluster", "p100-4x4", "--devices", 2, "--batch", 64)
    assert slicewise("plan", *job, "-o", tmp_path / "build/digits.json", cache=tmp_path).returncode == 0
    assert _last_share(_torchrun(tmp_path, f"train_{stack}.py")) > 95.0


@pytest.mark.long
def test_volumes_are_segmented_by_monai(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    script = EXAMPLES / "segment_monai.py"
    job = (f"{script}:network", "--cluster", "p100-4x4", "--devices", 2, "--batch", 1, "--strategy", "spatial")
    assert slicewise("plan", *job, "-o", tmp_path / "build/monai.json", cache=tmp_path).returncode == 0
    (dice,) = re.findall(r"window by window: (\d\.\d+)", _torchrun(tmp_path, str(script)))
    assert float(dice) > 0.8


def test_the_notebook_prints_what_it_shows() -> None:
    """Of the plans that it runs, only the first unless the run is a long one."""
    cells = json.loads((EXAMPLES / "planning.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        source, printed = "".join(cell["source"]), io.StringIO()
        runs = RUNS in source
        if runs and not LONG:
            source = source.replace(RUNS, 'in ("data",):')
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        (shown,) = cell["outputs"]
        assert printed.getvalue() == "".join(shown["text"][: 1 if runs and not LONG else None])
    assert runs  # the last of them


def _torchrun(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _last_share(told: str) -> float:
    return float(re.findall(r"(\d+\.\d)% right", told)[-1])


def test_the_jobs_for_several_hosts_start_as_many_pods_as_they_tell_torchrun() -> None:
    _, job = yaml.safe_load_all((EXAMPLES / "hosts/kubernetes.yaml").read_text())
    spec = job["spec"]
    assert spec["completions"] == spec["parallelism"] == _nodes(spec["template"])
    replicas = yaml.safe_load((EXAMPLES / "hosts/kubeflow.yaml").read_text())["spec"]["pytorchReplicaSpecs"]
    assert replicas["Master"]["replicas"] == 1
    assert sum(each["replicas"] for each in replicas.values()) == _nodes(replicas["Worker"]["template"])


def _nodes(template: dict[str, Any]) -> int:
    """Of the container's torchrun; it starts a rank per GPU."""
    (container,) = template["spec"]["containers"]
    told = dict(re.findall(r"--(nnodes|nproc-per-node) (\d+)", container["args"][0]))
    assert int(told["nproc-per-node"]) == container["resources"]["limits"]["nvidia.com/gpu"]
    return int(told["nnodes"])
