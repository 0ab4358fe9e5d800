"""The collectives that layers wait for, under the names of the installed torch.

On CPUs a thread of the backend does the work, and whoever waits for it sleeps. A core that sleeps may take longer to
wake up than a small message to arrive, on virtual machines above all, so waiting for those starts with asking.
"""

import os
import time
from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

# torch 2.13 renamed all_gather_into_tensor and deprecates the old name.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_ASKING_S = 0.02
_SMALL_BYTES = 2**20  # larger messages keep the backend's threads busy: leave them the core


def all_reduce(x: Tensor, group: dist.ProcessGroup | None) -> None:
    """The sum over all members, in place."""
    finish(dist.all_reduce(x, group=group, async_op=True), x)


def all_gather(x: Tensor, members: int, group: dist.ProcessGroup | None) -> Tensor:
    """Every member's `x`, joined along dim 0."""
    parts, work = start_gather(x, members, group)
    finish(work, x)
    return parts


def start_gather(x: Tensor, members: int, group: dist.ProcessGroup | None) -> tuple[Tensor, dist.Work | None]:
    """The same under way: complete once `finish(work, x)` returns."""
    parts = x.new_empty((members * x.shape[0], *x.shape[1:]))
    return parts, _gather(parts, x.contiguous(), group=group, async_op=True)


def all_to_all(
    received: Tensor, sent: Tensor, counts: tuple[Sequence[int], Sequence[int]], group: dist.ProcessGroup | None
) -> None:
    """`counts`: items to receive from, and to send to, each member."""
    finish(start_all_to_all(received, sent, counts, group), sent)


def start_all_to_all(
    received: Tensor, sent: Tensor, counts: tuple[Sequence[int], Sequence[int]], group: dist.ProcessGroup | None
) -> dist.Work | None:
    """The same under way: complete once `finish(work, sent)` returns."""
    receives, sends = (list(items) for items in counts)
    work: dist.Work | None = dist.all_to_all_single(received, sent, receives, sends, group=group, async_op=True)
    return work


def finish(work: dist.Work | None, moved: Tensor) -> None:
    """Wait for a collective; on GPUs that is a matter of streams, and the host goes on."""
    if work is None:
        return
    if moved.device.type == "cpu" and moved.nbytes <= _SMALL_BYTES and _has_own_core():
        deadline_s = time.perf_counter() + _ASKING_S
        while not work.is_completed() and time.perf_counter() < deadline_s:
            os.sched_yield()
    work.wait()


def _has_own_core() -> bool:
    """Asking takes the core from ranks that share it."""
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))
    return ranks_here <= (os.cpu_count() or 1)
