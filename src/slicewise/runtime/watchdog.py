"""A thread that looks after the other ranks where no launcher of ours does: in scripts, and under torchrun.

Ranks of one host read each other's marks from shared memory. Ranks of several hosts tell theirs to the store that
torch.distributed met through, every few seconds, and remember what the others told last.
"""

import os
import shutil
import tempfile
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch.distributed as dist

from slicewise.environment import PLACE_FILE
from slicewise.runtime.stalls import Stall, somebody_waits, stalled
from slicewise.runtime.whereabouts import OUTSIDE, Place, mark, own_place, record_in_memory, record_to, unpacked

_LOOKS = 8  # per timeout


class StallWarning(UserWarning):
    """Ranks wait for one that has stopped moving."""


class Words(ABC):
    """What every rank said last."""

    closed = False  # nobody listens any more

    @abstractmethod
    def places(self) -> list[Place | None]: ...

    def silent(self, now_s: float, timeout_s: float) -> tuple[int, ...]:
        """Ranks of which nothing is heard any more."""
        return ()


class SharedWords(Words):
    """Of ranks of one host."""

    def __init__(self, rank: int, ranks: int) -> None:
        told = [tempfile.mkdtemp(prefix="slicewise-") if rank == 0 else ""]
        dist.broadcast_object_list(told, src=0)
        folder = Path(told[0])
        record_to(folder / str(rank))
        mark(OUTSIDE)
        dist.barrier()
        self._files = [(folder / str(other)).open("rb", buffering=0) for other in range(ranks)]
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder)  # open files live on, and nothing is left behind

    def places(self) -> list[Place | None]:
        return [unpacked(rank, os.pread(file.fileno(), 4096, 0)) for rank, file in enumerate(self._files)]


class StoreWords(Words):
    """Of ranks of several hosts; their clocks differ, so a word counts from when this rank first saw it.

    A thread of its own asks the store: where a link is cut, or the store's rank is stopped, it waits without end.
    """

    def __init__(self, rank: int, ranks: int, every_s: float) -> None:
        record_in_memory()
        store = dist.distributed_c10d._get_default_store()
        self._store: Any = store.clone() if hasattr(store, "clone") else store
        self._rank, self._ranks, self._every_s = rank, ranks, every_s
        self._known: list[Place | None] = [None] * ranks
        self._beats = [("", time.monotonic())] * ranks  # what each said last, a beat included, and when that was new
        self._keys = [f"slicewise/place/{rank}" for rank in range(ranks)]
        self._talk(0)  # waits for all: from here on, a rank that says nothing is one that fell silent
        threading.Thread(target=self._exchange, name="slicewise-words", daemon=True).start()

    def places(self) -> list[Place | None]:
        known = list(self._known)
        known[self._rank] = own_place(self._rank)
        return known

    def silent(self, now_s: float, timeout_s: float) -> tuple[int, ...]:
        heard = enumerate(self._beats)
        return tuple(rank for rank, (_, since_s) in heard if rank != self._rank and now_s - since_s > timeout_s / 2)

    def _exchange(self) -> None:
        for beat in count(1):
            time.sleep(self._every_s)
            if self.closed:
                return
            try:
                self._talk(beat)
            except RuntimeError:  # it went with its rank: what was heard last is all that can be told
                return

    def _talk(self, beat: int) -> None:
        own = own_place(self._rank)
        assert own is not None
        self._store.set(self._keys[self._rank], f"{beat} {own.step} {own.marks} {own.doing} {own.layer}")
        for rank, word in enumerate(self._asked()):
            self._hear(rank, word.decode())

    def _asked(self) -> list[bytes]:
        if self._store.has_extended_api():
            return list(self._store.multi_get(self._keys))
        return [self._store.get(key) for key in self._keys]

    def _hear(self, rank: int, word: str) -> None:
        if word != self._beats[rank][0]:
            self._beats[rank] = word, time.monotonic()
        _, step, marks, doing, layer = word.split(" ", 4)
        before = self._known[rank]
        if before is None or before.position != (int(step), int(marks)):
            self._known[rank] = Place(
                rank=rank,
                process=0,
                step=int(step),
                marks=int(marks),
                time_s=time.monotonic(),
                doing=doing,
                layer=layer,
            )


class Watchdog:
    def __init__(self, words: Words, timeout_s: float, tell: Callable[[Stall], None]) -> None:
        self._words, self._timeout_s, self._tell = words, timeout_s, tell
        self._since_s, self._world, self._ended = time.monotonic(), dist.group.WORLD, threading.Event()
        threading.Thread(target=self._look, name="slicewise-watchdog", daemon=True).start()

    @property
    def watches(self) -> bool:
        """This world."""
        return dist.is_initialized() and dist.group.WORLD is self._world and not self._ended.is_set()

    def end(self) -> None:
        self._ended.set()
        self._words.closed = True

    def _look(self) -> None:
        told = None
        while not self._ended.wait(self._timeout_s / _LOOKS):
            if not self.watches:
                self.end()
                return
            places = self._words.places()
            now_s = time.monotonic()
            silent = self._words.silent(now_s, self._timeout_s)
            stall = stalled(places, now_s, self._timeout_s, self._since_s, silent)
            if stall is None or not somebody_waits(places):
                continue
            where = tuple(place.position if place else None for place in places)
            if where != told:  # once for each stall
                told = where
                self._tell(stall)


_watchdog: Watchdog | None = None


def watch(timeout_s: float, tell: Callable[[Stall], None] | None = None) -> None:
    """Look after the ranks of this world, once; not where our launcher does. Every rank calls it."""
    global _watchdog
    if timeout_s <= 0 or PLACE_FILE in os.environ or dist.get_backend() == "fake":
        return
    if _watchdog is not None and _watchdog.watches:
        return
    rank, ranks = dist.get_rank(), dist.get_world_size()
    one_host = os.environ.get("LOCAL_WORLD_SIZE") == str(ranks)
    words = SharedWords(rank, ranks) if one_host else StoreWords(rank, ranks, timeout_s / _LOOKS)
    _watchdog = Watchdog(words, timeout_s, tell or warn)


def speaks(stall: Stall) -> bool:
    """One rank tells: the first that is not what the others wait for."""
    able = [rank for rank in range(len(stall.places)) if rank not in stall.behind]
    return dist.get_rank() == (able[0] if able else 0)


def warn(stall: Stall) -> None:
    """In a script; ending is left to the timeout of the process group, for a rank may be validating."""
    if speaks(stall):
        warnings.warn(str(stall), StallWarning, stacklevel=1)
