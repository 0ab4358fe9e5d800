"""The collectives that layers wait for, under the names of the installed torch.

On CPUs a thread of the backend does the work, and whoever waits for it sleeps. A core that sleeps may take longer to
wake up than a small message to arrive, on virtual machines above all, so waiting for those starts with asking.

There a large message each way between two ranks was also seen to get half of a slow link's rate. Segments, all of them
under way at once, get nearly all of it:

    a whole message   ==================>        segments   =1=> =2=> =3=> =4=>
                      <==================                   <=1= <=2= <=3= <=4=
"""

import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

import torch.distributed as dist
from torch import Tensor

# torch 2.13 renamed all_gather_into_tensor and deprecates the old name.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_ASKING_S = 0.02
_SMALL_BYTES = 2**20  # larger messages keep the backend's threads busy: leave them the core
SEGMENT_BYTES = 2**20

Counts = tuple[Sequence[int], Sequence[int]]  # items to receive from, and to send to, each member


def all_reduce(x: Tensor, group: dist.ProcessGroup | None) -> None:
    """The sum over all members, in place."""
    finish(dist.all_reduce(x, group=group, async_op=True), x)


def all_gather(x: Tensor, members: int, group: dist.ProcessGroup | None) -> Tensor:
    """Every member's `x`, joined along dim 0."""
    if _goes_in_segments(x, members, x.numel()):
        return _swapped(x.contiguous(), group)
    parts, work = start_gather(x, members, group)
    finish(work, x)
    return parts


def start_gather(x: Tensor, members: int, group: dist.ProcessGroup | None) -> tuple[Tensor, dist.Work | None]:
    """The same under way: complete once `finish(work, x)` returns."""
    parts = x.new_empty((members * x.shape[0], *x.shape[1:]))
    return parts, _gather(parts, x.contiguous(), group=group, async_op=True)


def _swapped(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """A gather of two."""
    me = dist.get_rank(group)
    parts = x.new_empty((2, *x.shape))
    parts[me] = x
    counts = _of_other(x, me)
    all_to_all(parts[1 - me].view(-1), x.view(-1), (counts, counts), group)
    return parts.flatten(0, 1)


def all_to_all(received: Tensor, sent: Tensor, counts: Counts, group: dist.ProcessGroup | None) -> None:
    """Both flat, in the order of the members."""
    for work in start_all_to_all(received, sent, counts, group):
        finish(work, sent)


def start_all_to_all(
    received: Tensor, sent: Tensor, counts: Counts, group: dist.ProcessGroup | None
) -> list[dist.Work | None]:
    """The same under way: complete once `finish(work, sent)` has returned for each."""
    return [
        dist.all_to_all_single(into, out, list(receives), list(sends), group=group, async_op=True)
        for into, out, (receives, sends) in _segments(received, sent, counts, group)
    ]


def _segments(
    received: Tensor, sent: Tensor, counts: Counts, group: dist.ProcessGroup | None
) -> Iterator[tuple[Tensor, Tensor, Counts]]:
    """As many on both ranks: each knows what goes either way."""
    receives, sends = counts
    most = max(*receives, *sends)
    if not _goes_in_segments(sent, len(sends), most):
        yield received, sent, counts
        return
    me, items = dist.get_rank(group), SEGMENT_BYTES // sent.element_size()
    assert receives[me] == sends[me] == 0
    for start, stop in pairwise(range(0, (ceil(most / items) + 1) * items, items)):
        into, out = received[start:stop], sent[start:stop]
        yield into, out, (_of_other(into, me), _of_other(out, me))


def _of_other(x: Tensor, me: int) -> list[int]:
    """Two counts: all items are the other's."""
    return [x.numel() * (member != me) for member in range(2)]


def _goes_in_segments(x: Tensor, members: int, items: int) -> bool:
    return x.device.type == "cpu" and members == 2 and items * x.element_size() > SEGMENT_BYTES


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
