"""Faults brought about in real runs: each ends as said, in bounded time, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.throughput.hosts import hosts, why_not
from slicewise.checkpoints.manifest import checkpoints
from slicewise.cli.main import main
from tests.machines import write_cores
from tests.validation.commands import document, slicewise, typed

HERE = Path(__file__).parent
MODEL = f"{HERE / 'small_models.py'}:classifier"
DATA = f"{HERE / 'faulty_data.py'}:batches"
BOUND_S = 100  # importing torch on a busy machine takes most of it

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the state of processes")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    path = folder / "plan.json"
    job = ("--cluster", write_cores(folder / "pair.toml"), "--strategy", "filter", "--batch", 8, "--optimizer", "adam")
    assert slicewise("plan", MODEL, *job, "-o", path, cache=folder).returncode == 0
    return path


def _fault(monkeypatch: pytest.MonkeyPatch, folder: Path, fault: str, rank: int, step: int) -> None:
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("FAULT_RANK", str(rank))
    monkeypatch.setenv("FAULT_STEP", str(step))
    monkeypatch.setenv("FAULT_ONCE", str(folder / "done"))


def _alive(plan: Path) -> list[str]:
    """Processes that run this plan."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, state = (entry / "cmdline").read_text(), (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(plan) in command and state != "Z" and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_stopped_rank_ends_the_run_and_diagnose_names_it(
    rank: int, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its loader works, in step 3."""
    _fault(monkeypatch, tmp_path, "stop", rank, 3)
    job = ("run", plan, "--iterations", 5, "--data", DATA, "--json")
    started_s = time.monotonic()
    done = typed(*job, "--stall-timeout", 3, cache=tmp_path)
    assert time.monotonic() - started_s < BOUND_S
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("slicewise: ")]
    assert line.startswith("slicewise: stalled: no rank has moved for ")
    assert f"rank {rank} was last seen waiting for its own batch (step 3)" in line
    assert f"rank {rank} is stopped" in line
    assert _alive(plan) == []
    stalled = tmp_path / "run.json"
    stalled.write_text(done.stdout)
    told = slicewise("diagnose", plan, "--measured", stalled, "--json", cache=tmp_path)
    assert told.returncode == 1
    (verdict,) = json.loads(told.stdout)["verdicts"]
    assert (verdict["kind"], verdict["ranks"], verdict["since_step"]) == ("stall", [rank], 3)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_loader_that_blocks_ends_the_run(
    rank: int, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fault(monkeypatch, tmp_path, "block", rank, 1)
    done = typed("run", plan, "--iterations", 5, "--data", DATA, "--stall-timeout", 3, cache=tmp_path)
    assert done.returncode == 3
    assert f"rank {rank} was last seen waiting for its own batch (step 1); rank {1 - rank} was" in done.stderr
    assert _alive(plan) == []


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_under_torchrun_a_stopped_rank_ends_the_run_too(
    rank: int, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fault(monkeypatch, tmp_path, "stop", rank, 1)
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "slicewise",
    ]
    job = ["run", str(plan), "--iterations", "5", "--data", DATA, "--stall-timeout", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, *job], capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("slicewise: ")]
    assert f"rank {rank} was last seen waiting for its own batch (step 1)" in line
    assert _alive(plan) == []


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("rank", [0, 1])
def test_a_link_that_is_cut_between_two_hosts_ends_both(
    rank: int, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of the ranks is on rank 0's host: the other cannot ask it any more."""
    _fault(monkeypatch, tmp_path, "cut", rank, 3)
    job = [sys.executable, "-m", "slicewise", "run", str(plan), "--iterations", "50", "--data", DATA]
    with hosts(1000) as ends:
        logs = [tmp_path / f"{number}.log" for number in range(2)]
        started = [
            host.start([*job, "--stall-timeout", "5"], number, 2, logs[number]) for number, host in enumerate(ends)
        ]
        try:
            codes = [process.wait(2 * BOUND_S) for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
    told = [log.read_text() for log in logs]
    assert codes == [3, 3], told
    for number, words in enumerate(told):
        assert "slicewise: stalled: no rank has moved for " in words
        assert f"rank {number} was last seen waiting for the other ranks to begin the step (step 3)" in words
        assert f"nothing is heard of rank {1 - number} any more: stopped, or a link is down" in words
    assert _alive(plan) == []


@pytest.mark.long
def test_a_rank_that_is_killed_during_a_save_leaves_the_older_checkpoint(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed by a file system that is slow to sync: the second checkpoint is under way."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE / "killed_saving"), *sys.path]))
    folder = tmp_path / "kept"
    job = ("run", plan, "--iterations", 6, "--data", DATA, "--checkpoint", folder, "--checkpoint-every", 2, "--json")
    monkeypatch.setenv("KILL_RANK_IN_SAVE", "1:2")
    died = typed(*job, cache=tmp_path)
    assert died.returncode == 3, died.stderr
    assert "rank 1 was ended by signal 9" in died.stderr
    assert [path.name for path in checkpoints(folder)] == ["0001-step-2"]
    monkeypatch.delenv("KILL_RANK_IN_SAVE")
    ran = document(typed(*job, "--resume", cache=tmp_path))
    assert ran["first_step"] == 2
    straight = document(typed("run", plan, "--iterations", 6, "--data", DATA, "--json", cache=tmp_path))
    assert ran["losses"] == straight["losses"][2:]
    assert set(ran["layers_s"]) >= {"0", "5"}
    assert all(len(row) == 2 for row in ran["layers_s"].values())
    assert [path.name for path in sorted(folder.iterdir())] == ["0001-step-2", "0002-step-4", "0003-step-6"]


@pytest.mark.long
def test_a_launcher_that_is_killed_takes_its_ranks_along(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fault(monkeypatch, tmp_path, "block", 1, 1)
    job = [sys.executable, "-m", "slicewise", "run", str(plan), "--data", DATA]
    launcher = subprocess.Popen(job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline_s = time.monotonic() + BOUND_S
    while not (tmp_path / "done").exists() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert len(_alive(plan)) == 3
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    time.sleep(1.5)
    assert _alive(plan) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--resume",), "--resume needs a folder: --checkpoint FOLDER"),
        (("--checkpoint-every", 3), "--checkpoint-every needs a folder: --checkpoint FOLDER"),
        (("--checkpoint", "kept", "--compare", "ddp"), "leave out --compare ddp"),
        (("--checkpoint", __file__), "test_faults.py is not a folder; name one for the checkpoints"),
        (("--stall-timeout", "soon"), "must look like 90s, 5min or 2h (got 'soon')"),
        (("--checkpoint", "FOLDER"), "has checkpoints, the last is 0001-step-4; --resume goes on from it"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_rank_starts(
    arguments: tuple[object, ...], reason: str, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0001-step-4").mkdir()
    given = [str(tmp_path if argument == "FOLDER" else argument) for argument in arguments]
    try:
        code = main(["run", str(plan), *given])
    except SystemExit as error:  # argparse's own
        code = int(error.code or 0)
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert reason in told.err
    assert "starting" not in told.err
