"""Work that is done beside other work: in a process of its own where a core is free, otherwise when it is asked for.

The process is a copy of this one (fork): it has the tables, and only its answer travels. That is safe where this
process has one thread. Elsewhere (a server, systems other than Linux, a rank among ranks) there is no copy. The answer
is the same, unless time runs out on either.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Generic, Self, TypeVar

from slicewise.orphans import end_with
from slicewise.search.deadline import hurry, over
from slicewise.search.solver import Settings

T = TypeVar("T")
_AT_MOST_S = 86400.0  # a deadline, so that there is one to be told of


class Beside(Generic[T]):
    """`work` keeps the deadline of its settings. A context: nothing outlives it."""

    def __init__(self, work: Callable[[Settings], T], settings: Settings, *, worth_it: bool) -> None:
        self._work, self._settings = work, settings
        self._process: BaseProcess | None = None
        if not worth_it or over(settings.deadline_s) or not _can_copy():
            return
        fork = multiprocessing.get_context("fork")
        self._answer, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=_copy, args=(work, settings, theirs, os.getpid()), daemon=True)
        with warnings.catch_warnings(), suppress(OSError):  # no room for a copy: here then
            # from Python 3.12 on: numpy's own threads are told of a fork, and the copy asks for no others
            warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
            process.start()
            self._process = process
        theirs.close()

    def result(self, patience_s: float) -> T:
        """The answer, `patience_s` from now as good as it is by then."""
        if self._process is None:
            return self._here(patience_s)
        if not self._answer.poll(max(0.0, patience_s)) and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGUSR1)
        try:
            return self._answer.recv()  # type: ignore[no-any-return]
        except EOFError:  # it was ended: by the system when memory ran out, for one
            return self._here(patience_s)

    def _here(self, patience_s: float) -> T:
        return self._work(self._settings.until(time.perf_counter() + patience_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._answer.close()


def _can_copy() -> bool:
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
        and not multiprocessing.current_process().daemon
        and "RANK" not in os.environ  # the other ranks have the cores
    )


def _copy(work: Callable[[Settings], T], settings: Settings, answer: Connection, parent: int) -> None:
    end_with(parent)
    signal.signal(signal.SIGUSR1, hurry)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who waits is told, and ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    hurried = replace(settings.until(time.perf_counter() + _AT_MOST_S), progress=lambda _: None)
    with suppress(Exception):  # the one who waits will meet it too, and say so
        answer.send(work(hurried))
