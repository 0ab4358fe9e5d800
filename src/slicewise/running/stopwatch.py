"""How long a layer's forward and backward take, all ranks at once: they share memory bandwidth when they train.

    forward:    barrier, then run() -> y                  without what it waits for others in (the clock's spans)
    backward:   of gradients that are there already

The median of the repeats, warmed up, of the slower rank. What takes less time than waking up from
the barrier is repeated in a row, as small layers follow each other in a step.
"""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.runtime.clock import Clock, running
from slicewise.runtime.devices import rank_device, synchronize

T = TypeVar("T")
_SHORT_S, _IN_A_ROW = 2e-3, 20
_FEW_PAGES, _MOST_UNSETTLED = 64, 11


def passes_s(
    run: Callable[[T], Tensor],
    leaves: Sequence[Tensor],
    repeats: int,
    *,
    prepare: Callable[[], T],
    summed: Tensor | None = None,
    empty_s: float = 0.0,
) -> tuple[float, float]:
    """Forward, run(prepare()), and backward into `leaves`; 0 where none wants a gradient. `empty_s`: of no backward."""
    once = partial(own_pass_s, run, leaves, prepare=prepare, summed=summed)
    taken = settled(once, repeats + 1)[1:]
    if is_short(agreed_s([sum(passes) for passes in taken])):
        taken = in_a_row(once, _IN_A_ROW)
    forward_s, backward_s = zip(*taken, strict=True)
    return agreed_s(forward_s), without(agreed_s(backward_s), empty_s)


def is_short(seconds: float) -> bool:
    """Less than what waking up from a barrier would spoil."""
    return seconds < _SHORT_S


def in_a_row(once: Callable[..., T], count: int) -> list[T]:
    """`once(apart=False)` after itself, again and again; one before them, from a common start, does not count."""
    return [once(apart=number == 0) for number in range(count + 1)][1:]


def own_pass_s(
    run: Callable[[T], Tensor],
    leaves: Sequence[Tensor],
    *,
    prepare: Callable[[], T],
    summed: Tensor | None = None,
    apart: bool = True,
) -> tuple[float, float]:
    """The same once, by this rank's clock. All ranks start together, unless it is not `apart` from what was before.

    Gradients of `summed` are added to one that is there, as those of a tensor with several readers are.
    """
    for leaf in leaves:
        leaf.grad = torch.zeros_like(leaf) if leaf is summed else None
    forward_s, y = _alone_s(partial(run, prepare()), apart)
    return forward_s, _alone_s(partial(y.backward, torch.ones_like(y)), apart)[0] if y.requires_grad else 0.0


def empty_backward_s(start: Callable[[Tensor], Tensor] = lambda leaf: leaf) -> float:
    """What `backward()` costs whatever it computes: in a step it is called once, not for every layer.

    `start`: what a layer is given of a leaf.
    """
    leaf = torch.zeros(1, requires_grad=True)
    once = partial(own_pass_s, lambda x: x.view_as(x), [leaf], prepare=lambda: start(leaf))
    return agreed_s([backward_s for _, backward_s in in_a_row(once, _IN_A_ROW)])


def without(seconds: float, other_s: float) -> float:
    """What is left of something when a part is taken out; noise never makes it nothing."""
    return max(seconds - other_s, seconds / 10)


def until_settled(function: Callable[[], object], group: dist.ProcessGroup | None = None) -> None:
    """Warm up: call it until it finds all of its memory at hand, on every rank."""

    def once() -> None:
        function()

    settled(once, 1, group)


def settled(function: Callable[[], T], wanted: int, group: dist.ProcessGroup | None = None) -> list[T]:
    """What so many calls return that find all of their memory at hand, on every rank; others do not count.

    A page that is touched for the first time may take as long as all that is computed with it. Training meets that in
    its first steps alone. What never settles counts as it is.
    """
    every: list[T] = []
    found: list[T] = []
    while len(found) < wanted and len(every) < wanted + _MOST_UNSETTLED:
        before = _pages()
        every.append(function())
        fresh = torch.tensor(_pages() - before, device=rank_device())
        dist.all_reduce(fresh, dist.ReduceOp.MAX, group=group)
        if int(fresh) < _FEW_PAGES:
            found.append(every[-1])
    return found if len(found) == wanted else every[-wanted:]


def _pages() -> int:
    """That this process has touched for the first time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def timed_s(function: Callable[[], object], repeats: int) -> float:
    """Of anything; what is short is called in a row."""
    seconds = alternated_s([function], repeats)[0]
    return agreed_s(in_a_row(partial(_took_s, function), _IN_A_ROW)) if is_short(seconds) else seconds


def alternated_s(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Of several that are compared: in turn, so that a machine which drifts treats them alike."""
    taken = [[_took_s(function) for function in functions] for _ in range(repeats + 1)]
    return [agreed_s(seconds) for seconds in zip(*taken[1:], strict=True)]


def _took_s(function: Callable[[], object], apart: bool = True) -> float:
    return _alone_s(function, apart)[0]


def _alone_s(function: Callable[[], T], apart: bool = True) -> tuple[float, T]:
    """From a common start if it is `apart`, without the communication inside."""
    if apart:
        dist.barrier()
    with running(Clock()) as clock:
        start_s = time.perf_counter()
        result = function()
        synchronize()
        elapsed_s = time.perf_counter() - start_s
    return elapsed_s - sum(span.stop_s - span.start_s for span in clock.spans), result


def agreed_s(seconds: Sequence[float]) -> float:
    """The median, of the slower rank."""
    value = torch.tensor(statistics.median(seconds), dtype=torch.float64, device=rank_device())
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return max(float(value), 0.0)
