"""Messages before compute: on CPUs, threads of the backend run as soon as they have a message to pass on.

A rank computes on its core all the time. A thread that wakes up for a message waits until the scheduler looks at that
core again, up to 4 ms on Linux: as long as a whole step of a small network.

    core 0:  conv3 ............ conv2 ...            conv3 ... | m | conv2 ...
    message:        ready ----- sent                        ready, sent

As real-time threads they go first. They sleep nearly all the time, so others lose nothing. It takes a privilege
(CAP_SYS_NICE, or a limit on `rtprio`), which root has; without it steps are as right, and longer and less even.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from slicewise.environment import REALTIME

_THREADS = Path("/proc/self/task")  # where there is none, no thread is found
_BACKENDS = "gloo"  # in the names of its threads
_PRIORITY = 1  # the lowest of real-time threads


def messages_first() -> None:
    """For the threads of all process groups that there are by now; `SLICEWISE_REALTIME=0` leaves them alone."""
    _first(thread for thread in _threads() if _BACKENDS in _name(thread))


@contextmanager
def started_first() -> Iterator[None]:
    """For the threads of process groups that are made inside: they may have no name yet when that is done."""
    before = _threads()
    yield
    _first(_threads() - before)


def _first(threads: Iterable[Path]) -> None:
    if os.environ.get(REALTIME) == "0" or torch.cuda.is_available():
        return
    for thread in threads:
        with suppress(ProcessLookupError, PermissionError):  # it ended, or we may not
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(_PRIORITY))


def _threads() -> set[Path]:
    return set(_THREADS.iterdir()) if _THREADS.exists() else set()


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text()
    except OSError:  # it ended
        return ""
