"""`sw.save_checkpoint`: the whole training into a new folder; what was saved before stays loadable until the end.

every rank       copies, writes its files, sums them up
rank 0                                               manifest, rename, deletes the oldest
the folder       .0007-step-40-1f0c.tmp/ ........................ 0007-step-40/
"""

import os
import secrets
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict_saver import save

from slicewise.checkpoints.manifest import Manifest, forget, next_name, unfinished
from slicewise.checkpoints.ranks import Together, said
from slicewise.checkpoints.state import Table, copied, table_of
from slicewise.checkpoints.storage import SummingWriter
from slicewise.errors import CheckpointError, RequestError


class Saving:
    """A save that is done, or under way in the background: `wait()` returns the checkpoint's folder, or raises."""

    def __init__(self, step: int, folder: Path, done: Callable[[], None]) -> None:
        self.step, self.told = step, False  # told: somebody has waited, and knows how it ended
        self._folder, self._done = folder, done

    def wait(self) -> Path:
        self.told = True
        self._done()
        return self._folder

    def __fspath__(self) -> str:
        return str(self.wait())


_writer: ThreadPoolExecutor | None = None  # one thread: saves come one after the other
_under_way: Saving | None = None


def save_checkpoint(
    folder: str | os.PathLike[str],
    net: Any,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    step: int,
    keep: int = 3,
    asynchronous: bool = False,
    **extra: Any,
) -> Saving:
    """Save network, optimizer, random numbers and `extra` as `folder/0007-step-40`; the last `keep` are kept.

    Every rank calls it, between two steps. `net` is what parallelize or pipeline returned, a module, or a
    DistributedDataParallel. `extra`, the same on every rank: anything with a `state_dict` (a scheduler, a GradScaler, a
    data_loader), or tables of tensors and plain values (an average of the weights, the epoch).

    asynchronous: returns once everything is copied to the host, and writes in the background. What goes wrong there is
    raised by `wait()` of the result, or else by the next save or load.
    """
    _check(step, keep)
    finish()
    together = Together()
    place = Path(folder)
    table = table_of(net, optimizer, extra, together.rank)
    target, temporary = together.of_the_first(lambda: _prepare(place, step))
    if not asynchronous:
        _write(table, step, keep, target, temporary, together)
        return Saving(step, target, lambda: None)
    return _in_background(copied(table), step, keep, target, temporary, together)


def finish() -> None:
    """Wait for the save that is under way, if there is one; raises what went wrong, if nobody knows yet."""
    global _under_way
    saving, _under_way = _under_way, None
    if saving is not None and not saving.told:
        saving.wait()


def _check(step: int, keep: int) -> None:
    if step < 0:
        raise RequestError(f"a checkpoint's step must be 0 or more (got {step})")
    if keep < 1:
        raise RequestError(f"keep must be 1 or more (got {keep})")


def _prepare(folder: Path, step: int) -> tuple[Path, Path]:
    """Where the checkpoint will be, and where it is written until then; what earlier saves left unfinished goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in unfinished(folder):
        shutil.rmtree(left, ignore_errors=True)
    name = next_name(folder, step)
    temporary = folder / f".{name}-{secrets.token_hex(4)}.tmp"
    temporary.mkdir()
    return folder / name, temporary


def _in_background(*work: Any) -> Saving:
    global _writer, _under_way
    _writer = _writer or ThreadPoolExecutor(1, thread_name_prefix="slicewise-checkpoint")
    future: Future[None] = _writer.submit(_write, *work)
    _under_way = Saving(work[1], work[3], future.result)
    return _under_way


def _write(table: Table, step: int, keep: int, target: Path, temporary: Path, together: Together) -> None:
    try:
        sums = _write_files(table, temporary, together)
        together.of_the_first(lambda: _complete(sums, step, keep, target, temporary, together.ranks))
    except BaseException as error:
        if together.rank == 0:
            shutil.rmtree(temporary, ignore_errors=True)  # room for the next
        if isinstance(error, CheckpointError):
            raise CheckpointError(f"step {step} was not saved to {target}: {error}") from error
        raise


def _write_files(table: Table, temporary: Path, together: Together) -> dict[str, tuple[int, int]]:
    """By torch; returns what every rank wrote."""
    writer = SummingWriter(temporary)
    planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    alone = together.group is None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            save(table, storage_writer=writer, planner=planner, process_group=together.group, no_dist=alone)
    except CheckpointException as error:
        rank, (reason, _) = next(iter(error.failures.items()))
        raise CheckpointError(f"rank {rank}: {said(reason)}") from error
    return {name: summed for sums in together.every(writer.sums) for name, summed in sums.items()}


def _complete(
    sums: dict[str, tuple[int, int]], step: int, keep: int, target: Path, temporary: Path, ranks: int
) -> None:
    Manifest(step=step, ranks=ranks, files=sums).write(temporary)
    temporary.rename(target)
    _flush_folder(target.parent)
    forget(target.parent, keep)


def _flush_folder(folder: Path) -> None:
    """The new name too survives a power cut, where the system lets folders be opened."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
