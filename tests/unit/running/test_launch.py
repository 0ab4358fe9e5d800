"""What the launcher gives to ranks, and says of those that die."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import slicewise
from slicewise.errors import RankError, StallError
from slicewise.running import launch as launching
from slicewise.running.launch import launch

SPEAKS = "print('terminate called', file=sys.stderr, flush=True)"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`python -m slicewise` finds what is written here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "slicewise.py"


@pytest.mark.parametrize(
    ("before", "told"), [(SPEAKS, ": terminate called"), ("pass", r" without a word \(out of memory\?\)")]
)
def test_a_rank_that_dies_is_told_with_its_last_words(before: str, told: str, program: Path) -> None:
    """Rank 1 is ended by a signal."""
    program.write_text(f"import os, sys\nif os.environ['RANK'] == '1':\n    {before}\n    os.abort()\n")
    with pytest.raises(RankError, match=f"^rank 1 was ended by signal 6{told}$"):
        launch([], 2)


def test_ranks_that_share_cores_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert launching.crowding(2) is None
    told = launching.crowding(16)
    assert told is not None
    assert told.startswith("16 ranks share the 2 cores of this host: numbers are right, times are not")
    assert "\n" not in told


@pytest.mark.skipif("lo" not in {name for _, name in socket.if_nameindex()}, reason="no loopback of that name")
@pytest.mark.parametrize(("given", "used"), [(None, "lo"), ("eth7", "eth7")])
@pytest.mark.parametrize("backend", ["GLOO", "NCCL"])
def test_ranks_talk_over_loopback_unless_the_user_says_otherwise(
    given: str | None, used: str, backend: str, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an interface, gloo and NCCL listen on the address of the host's own name."""
    variable = f"{backend}_SOCKET_IFNAME"
    monkeypatch.delenv(variable, raising=False)
    if given is not None:
        monkeypatch.setenv(variable, given)
    program.write_text(f"import os, pathlib\npathlib.Path(os.environ['RANK']).write_text(os.environ['{variable}'])\n")
    assert launch([], 2) == 0
    assert [(program.parent / rank).read_text() for rank in "01"] == [used, used]


# `python -m slicewise` runs this; the package's own modules are found behind it
MARKING = """
import os, signal, sys, time
from pathlib import Path
from slicewise.runtime.orphans import end_with_launcher
from slicewise.runtime.whereabouts import at_step, mark, record_to

end_with_launcher()
record_to(Path(os.environ["SLICEWISE_PLACE_FILE"]))
rank = int(os.environ["RANK"])
at_step(7)
mark("compute", "conv1")
Path(f"{rank}.pid").write_text(str(os.getpid()))
while len(list(Path().glob("*.pid"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
"""
STOPS = """
if rank == {rank}:
    os.kill(os.getpid(), signal.SIGSTOP)
mark("transfer", "conv2")
time.sleep(60)
"""
BLOCKS = """
if rank != {rank}:
    mark("transfer", "conv2")
time.sleep(60)
"""
TOGETHER = """
mark("sync", "fc")
time.sleep(60)
"""


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "slicewise"
    package.mkdir()
    own = Path(slicewise.__file__).parent
    (package / "__init__.py").write_text(f"__path__.append({str(own)!r})")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    return package / "__main__.py"


def _alive(folder: Path) -> list[int]:
    """Processes of ranks that still run; those that have ended and were not waited for do not."""
    found = []
    for file in folder.glob("*.pid"):
        state = Path(f"/proc/{file.read_text()}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
            found.append(int(file.read_text()))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the state of processes")
@pytest.mark.parametrize("rank", range(3))
def test_a_rank_that_is_stopped_ends_the_run_which_says_where_it_was(rank: int, ranks: Path, tmp_path: Path) -> None:
    """Rank 0 as well; and none of them lives on."""
    ranks.write_text(MARKING + STOPS.format(rank=rank))
    started_s = time.monotonic()
    with pytest.raises(StallError) as error:
        launch([], 3, 1.0)
    assert time.monotonic() - started_s < 60
    told = str(error.value)
    assert told.startswith(f"stalled: no rank has moved for 1 s: rank {rank} was last seen computing conv1 (step 7); ")
    others = {0: "1-2", 1: "0, 2", 2: "0-1"}[rank]
    assert f"ranks {others} were last seen in transfer of conv2 (step 7); rank {rank} is stopped" in told
    assert error.value.record["behind"] == error.value.record["stopped"] == [rank]
    assert error.value.record["ranks"][rank] == {"step": 7, "doing": "compute", "layer": "conv1"}
    assert _alive(tmp_path) == []


def test_a_rank_that_blocks_is_behind_the_others(ranks: Path) -> None:
    ranks.write_text(MARKING + BLOCKS.format(rank=1))
    with pytest.raises(StallError, match="rank 1 was last seen computing conv1") as error:
        launch([], 2, 1.0)
    assert error.value.record["behind"] == [1]
    assert error.value.record["stopped"] == []


def test_where_all_wait_for_each_other_a_link_may_be_down(ranks: Path) -> None:
    ranks.write_text(MARKING + TOGETHER)
    with pytest.raises(StallError, match=r"ranks 0-1 were last seen in sync of fc \(step 7\); .* a link may be down"):
        launch([], 2, 1.0)


def test_without_a_timeout_ranks_may_take_their_time(ranks: Path) -> None:
    ranks.write_text(MARKING + "time.sleep(2)")
    assert launch([], 2) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the state of processes")
@pytest.mark.parametrize("state", ["running", "stopped"])
def test_no_rank_outlives_a_launcher_that_is_killed(state: str, ranks: Path, tmp_path: Path) -> None:
    ranks.write_text(MARKING + (STOPS.format(rank=1) if state == "stopped" else "time.sleep(60)"))
    program = "from slicewise.running.launch import launch; launch([], 2)"
    launcher = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    deadline_s = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert len(_alive(tmp_path)) == 2
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    while _alive(tmp_path) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert _alive(tmp_path) == []


def test_a_launcher_that_is_ended_before_its_last_rank_is_there_takes_the_first_along(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.write_text("import time\ntime.sleep(60)\n")
    start = launching._start
    started: list[subprocess.Popen[bytes]] = []

    def ended_at_the_second(*arguments: object) -> subprocess.Popen[bytes]:
        if started:
            signal.raise_signal(signal.SIGTERM)
        started.append(start(*arguments))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(launching, "_start", ended_at_the_second)
    with pytest.raises(SystemExit) as ended:
        launch([], 2)
    assert ended.value.code == 128 + signal.SIGTERM
    assert [rank.poll() for rank in started] == [-signal.SIGTERM]
