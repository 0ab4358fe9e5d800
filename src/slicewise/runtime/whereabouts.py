"""Where this rank is: step, layer, and what it does there. Other processes read it, also when this one is stopped.

A mark is one write into memory that is shared with the launcher, or with the other ranks of the host: a microsecond,
no message. Nothing is written where nobody has asked for it (`record_to`, `record_in_memory`).

    mark("compute", "conv1") .. mark("transfer", "conv2") .. mark("compute", "conv2") .. mark("backward") .. "outside"
"""

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OUTSIDE = "outside"  # of the network: in the script
STARTING = ("start", "build", "check")  # before the first step
DONE = "done"  # whoever reads the results may take their time
_RECORD = struct.Struct("<qqqd16s200s")  # process, step, marks in this step, time, doing, layer
_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank was seen last."""

    rank: int
    process: int
    step: int
    marks: int  # in this step: ranks do the same in the same order, so fewer is further behind
    time_s: float  # of the host's monotonic clock
    doing: str
    layer: str

    @property
    def position(self) -> tuple[int, int]:
        return self.step, self.marks


_memory: mmap.mmap | bytearray | None = None
_step, _marks = 0, 0
_counted = False  # whoever trains says which step it is; otherwise forward passes are counted
_process = 0
_texts: dict[tuple[str, str], tuple[bytes, bytes]] = {}
_spent: dict[tuple[str, str], float] | None = None  # seconds from each mark to the next, where somebody adds them up
_last: tuple[tuple[str, str], float] = (("", ""), 0.0)


def record_to(path: Path) -> None:
    """From now on, marks go to this file."""
    global _memory, _process
    path.write_bytes(bytes(_RECORD.size))
    with path.open("r+b") as file:
        _memory = mmap.mmap(file.fileno(), _RECORD.size)
    _process = os.getpid()
    mark("start")


def record_in_memory() -> None:
    """From now on, marks are kept in this process, for `own_place`."""
    global _memory, _process
    _memory, _process = bytearray(_RECORD.size), os.getpid()
    mark(OUTSIDE)


def recording() -> bool:
    return _memory is not None


def mark(doing: str, layer: str = "") -> None:
    global _marks, _last
    memory = _memory
    if memory is None:
        return
    _marks += 1
    key, now_s = (doing, layer), time.monotonic()
    text = _texts.get(key)
    if text is None:
        text = _texts[key] = doing.encode(), layer.encode()[:_TEXT]
    if _spent is not None:
        before, since_s = _last
        _spent[before] = _spent.get(before, 0.0) + now_s - since_s
        _last = key, now_s
    _RECORD.pack_into(memory, 0, _process, _step, _marks, now_s, *text)


@contextmanager
def adding_up() -> Iterator[dict[tuple[str, str], float]]:
    """Seconds by what was done in which layer, of everything inside."""
    global _spent, _last
    _spent, _last = {}, (("", ""), time.monotonic())
    try:
        yield _spent
    finally:
        _spent = None


def at_step(step: int) -> None:
    """The training says that this step begins."""
    global _step, _marks, _counted
    _step, _marks, _counted = step, 0, True


def at_pass(number: int) -> None:
    """The network says that its pass of this number begins."""
    global _step, _marks
    if not _counted and number != _step:
        _step, _marks = number, 0


def own_place(rank: int) -> Place | None:
    return None if _memory is None else unpacked(rank, bytes(_memory[: _RECORD.size]))


def place_in(path: Path, rank: int) -> Place | None:
    """What a rank has written to its file; None before its first mark."""
    try:
        return unpacked(rank, path.read_bytes())
    except OSError:
        return None


def unpacked(rank: int, record: bytes) -> Place | None:
    if len(record) != _RECORD.size:
        return None
    process, step, marks, time_s, doing, layer = _RECORD.unpack(record)
    words = [text.rstrip(b"\0").decode(errors="replace") for text in (doing, layer)]
    if not words[0]:
        return None
    return Place(rank=rank, process=process, step=step, marks=marks, time_s=time_s, doing=words[0], layer=words[1])
