"""Messages before compute: on CPUs, threads of the backend run as soon as they have a message to pass on.

A rank computes on its core all the time. A thread that wakes up for a message waits until the scheduler looks at that
core again, up to 4 ms on Linux: as long as a whole step of a small network.

    core 0:  conv3 ............ conv2 ...            conv3 ... | m | conv2 ...
    message:        ready ----- sent                        ready, sent

As real-time threads they go first. It takes a privilege (CAP_SYS_NICE, or a limit on `rtprio`), which root has; without
it steps are as right, and longer and less even.

Only where all messages are collectives, which threads of the backend start. A message between two ranks is sent by
the thread that computes. It holds a lock that the backend's thread then asks for without end, and as a real-time thread
it leaves no core to the one that has the lock: a second passes before the system steps in.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from slicewise.environment import REALTIME

_THREADS = Path("/proc/self/task")  # where there is none, no thread is found
_BACKENDS = ("gloo_tcp_loop", "pt_gloo_runloop")  # names of its threads, as Linux cuts them
_PRIORITY = 1  # of all alike: they wait for each other's locks by asking, and give way to their like alone
_NAMING_S = 0.05  # a thread names itself, soon after it was started


class _Wish:
    first = False


_wish = _Wish()


def messages_first() -> None:
    """From now on, in this process; for the threads that there are, and those of groups that are made later.

    `SLICEWISE_REALTIME=0` leaves all threads alone.
    """
    if os.environ.get(REALTIME) != "0" and not torch.cuda.is_available():
        _wish.first = True
        _set(_threads(), os.SCHED_RR)


@contextmanager
def as_usual() -> Iterator[None]:
    """Inside, ranks send messages to each other one by one."""
    before = _wish.first
    if before:
        _wish.first = False
        _set(_threads(), os.SCHED_OTHER)
    try:
        yield
    finally:
        if before:
            messages_first()


@contextmanager
def starting() -> Iterator[None]:
    """Process groups are made inside: their threads are like the others."""
    before = _threads()
    yield
    if _wish.first:
        started, until_s = _threads() - before, time.monotonic() + _NAMING_S
        while time.monotonic() < until_s and any(_name(thread) not in _BACKENDS for thread in started):
            time.sleep(_NAMING_S / 50)
        _set(started, os.SCHED_RR)


def _set(threads: Iterable[Path], policy: int) -> None:
    for thread in threads:
        if _name(thread) in _BACKENDS:
            with suppress(ProcessLookupError, PermissionError):  # it ended, or we may not
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(_PRIORITY * (policy == os.SCHED_RR)))


def _threads() -> set[Path]:
    return set(_THREADS.iterdir()) if _THREADS.exists() else set()


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().strip()
    except OSError:  # it ended
        return ""
