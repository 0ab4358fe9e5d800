"""Start one process per rank on this host, as torchrun would, and bring all down when one fails."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from slicewise.environment import FAILURE_FILE, LAUNCHER, MEETING_FILE, PLACE_FILE
from slicewise.errors import RankError, RequestError, StallError
from slicewise.runtime.stalls import stalled
from slicewise.runtime.whereabouts import place_in

# glibc returns large buffers to the kernel on every free, and gets them back with pages to be cleared. That costs
# 10-15 % of a CPU step; the gradient of 64 MiB of linear weights takes four times as long. Threads of the backend would
# do so even then, but for a single arena: gathering 64 MiB or more takes twice as long. Same for every contender.
MALLOC_TUNABLES = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296:glibc.malloc.arena_max=1"
_GRACE_S = 5.0
_LOOKING_S = 0.5  # how often ranks are asked how far they have come
_RANKS_PER_CORE = 8


def inside_a_rank() -> bool:
    """Whether torchrun, or this launcher, started the process as a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launch(arguments: Sequence[str], ranks: int, stall_timeout_s: float = 0.0) -> int:
    """Run `python -m slicewise ARGUMENTS` as `ranks` ranks; rank 0 has the terminal. 0 done, 1 the answer is no.

    Ranks that do not move for `stall_timeout_s` (0: however long) are ended, and a StallError says where they were.
    """
    check_ranks(ranks)
    with tempfile.TemporaryDirectory() as folder:
        processes: list[subprocess.Popen[bytes]] = []
        # ended from outside, even before the last rank is there: take the ranks along
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            for rank in range(ranks):
                processes.append(_start(arguments, rank, ranks, Path(folder)))
            failed = _first_failure(processes, Path(folder), stall_timeout_s)
        finally:
            _stop(processes)
            signal.signal(signal.SIGTERM, before)
        if failed is None:
            return max(process.returncode for process in processes)
        reason = Path(folder) / f"{failed}"
        code = processes[failed].returncode
        if reason.exists():
            message = reason.read_text()
            # every rank finds the same fault in a request: it is not this rank's
            raise RequestError(message) if code == 2 else RankError(message)
        died = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        raise RankError(f"rank {failed} {died}{_last_words(Path(folder), failed)}")


def check_ranks(ranks: int) -> None:
    """Refuse more ranks than a host could bear: each is a process that imports torch."""
    cores = os.cpu_count() or 1
    if ranks > _RANKS_PER_CORE * cores:
        raise RequestError(
            f"{ranks} ranks are too many for the {cores} cores of this host; start {_RANKS_PER_CORE * cores} or fewer, "
            "or spread them over hosts with torchrun"
        )


def crowding(ranks: int) -> str | None:
    """What to say where ranks share cores."""
    import torch  # late: without torch, the command says so in its own words

    cores = os.cpu_count() or 1
    if ranks <= cores or torch.accelerator.is_available():
        return None
    return (
        f"{ranks} ranks share the {cores} cores of this host: numbers are right, times are not those of {ranks} "
        "devices; for those, start the ranks on the plan's hosts with torchrun"
    )


def _last_words(folder: Path, rank: int) -> str:
    """The last line that a rank wrote to standard error; rank 0's went to the terminal."""
    words = folder / f"{rank}.err"
    lines = words.read_text(errors="replace").split("\n") if words.exists() else []
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else " without a word (out of memory?)"


def _start(arguments: Sequence[str], rank: int, ranks: int, folder: Path) -> subprocess.Popen[bytes]:
    environment = {
        "GLIBC_TUNABLES": MALLOC_TUNABLES,
        "OMP_NUM_THREADS": "1",
        **_loopback(),
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        MEETING_FILE: str(folder / "meeting"),
        FAILURE_FILE: str(folder / str(rank)),
        PLACE_FILE: str(_place_file(folder, rank)),
        LAUNCHER: str(os.getpid()),
    }
    command = [sys.executable, "-m", "slicewise", *arguments]
    if rank == 0:
        return subprocess.Popen(command, env=environment)
    with (folder / f"{rank}.err").open("wb") as words:
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=words)


def _place_file(folder: Path, rank: int) -> Path:
    return folder / f"{rank}.place"


def _first_failure(processes: list[subprocess.Popen[bytes]], folder: Path, stall_timeout_s: float) -> int | None:
    """Wait for all; the rank that failed first, if any. A rank that answers no (code 1) has not failed."""
    started_s = looked_s = time.monotonic()
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code not in (None, 0, 1)]
        if failed:
            return min(failed, key=lambda rank: _failed_at(folder / str(rank)))
        if None not in codes:
            return None
        if stall_timeout_s and time.monotonic() > looked_s + _LOOKING_S:
            looked_s = time.monotonic()
            places = [place_in(_place_file(folder, rank), rank) for rank in range(len(processes))]
            stall = stalled(places, looked_s, stall_timeout_s, started_s)
            if stall is not None:
                raise StallError(f"stalled: {stall}", stall.to_dict())
        time.sleep(0.05)


def _failed_at(reason: Path) -> int:
    """When a rank said why; one that could not say anything took the others with it."""
    return reason.stat().st_mtime_ns if reason.exists() else 0


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # one that is stopped could not end
    for process in running:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _loopback() -> dict[str, str]:
    """Ranks of one host listen where nobody else can connect; gloo and NCCL would take the host's own address."""
    names = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}
    return {variable: name for name in names for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")}
