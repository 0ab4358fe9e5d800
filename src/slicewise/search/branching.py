"""Branch and bound, for graphs that are too wide to eliminate: the best plan by a deadline, and how far off it can be.

The open subproblem with the lowest bound is split in two: one node's most promising choice against its others. Bounds
come from message passing, started from the parent's messages.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import numpy as np

from slicewise.partition.choices import Ints
from slicewise.search.bounds import Bounds
from slicewise.search.deadline import over
from slicewise.search.solution import Solution
from slicewise.units import ROUNDING

_PASSES = 4


def branch_and_bound(
    root: Bounds, upper: float, deadline: float, progress: Callable[[str], None], gap: float = 0.0
) -> Solution:
    """A solution cheaper than `upper`, or none where none was found; its `lower` holds either way.

    A share `gap` between the two will do.
    """
    enough = 1 - max(ROUNDING, gap)
    choice: tuple[int, ...] = ()
    numbers = count()
    everything = [np.arange(size) for size in root.problem.sizes]
    queue: list[tuple[float, int, Bounds, list[Ints]]] = []
    heappush(queue, (root.lower, next(numbers), root, everything))
    while queue and queue[0][0] < upper * enough and not over(deadline):
        _, number, bounds, kept = heappop(queue)
        if number % 100 == 0:
            progress(f"branch and bound: {upper:.6g} s in hand, at least {bounds.lower:.6g} s, {len(queue) + 1} open")
        for rows in _branches(bounds):
            child = bounds.restricted(rows)
            held = [keep[row] for keep, row in zip(kept, rows, strict=True)]
            child.deadline_s = float("inf")  # a few passes more: what is left open must have its bound
            for _ in range(_PASSES):
                plan = child.forward()
                cost = child.problem.cost(plan)
                if cost < upper:
                    upper, choice = cost, tuple(int(keep[a]) for keep, a in zip(held, plan, strict=True))
                child.backward()
            if child.lower < upper * (1 - ROUNDING) and max(child.problem.sizes) > 1:
                left = child.within(upper)
                held = [keep[row] for keep, row in zip(held, left, strict=True)]
                heappush(queue, (child.lower, next(numbers), child.restricted(left), held))
    lower = min((bound for bound, *_ in queue), default=upper)
    return Solution(choice=choice, cost=upper, lower=min(lower, upper), method="branch and bound")


def _branches(bounds: Bounds) -> list[list[Ints]]:
    """The node with most choices left: its best choice, or any other there is."""
    sizes = bounds.problem.sizes
    node = int(np.argmax(sizes))
    best = int(bounds.of_choice[node].argmin())
    halves = [np.array([best]), np.delete(np.arange(sizes[node]), best)]
    return [
        [half if other == node else np.arange(size) for other, size in enumerate(sizes)] for half in halves if len(half)
    ]
