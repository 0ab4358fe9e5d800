"""Branch and bound under a memory limit: closes what prices of memory leave open.

A price finds only plans on the convex hull of time and memory; the fastest plan that fits may lie inside. A subproblem
is a set of choices per layer. Its bound is message passing over  time + price * memory - price * room,  where room is
what layers may keep beside what one of them needs while it runs. That is at most the time of any plan that fits,
whatever the price. So each subproblem moves the price on to where its own bound is highest, and keeps all bounds. The
subproblem with the lowest bound is split where memory differs most: one layer's small choices, or its large ones.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from slicewise.partition.choices import Floats, Ints
from slicewise.search.bounds import Bounds
from slicewise.search.deadline import over
from slicewise.search.mending import Mending
from slicewise.search.problem import Problem
from slicewise.search.solution import Solution
from slicewise.search.solver import Settings
from slicewise.units import ROUNDING

CLOSE = 0.01  # a gap that is worth more patience
_PATIENCE_S, _SHORT_S = 10.0, 2.0
_ROUNDS = 3  # prices that a subproblem tries
_DEAR = 8.0  # times the price: what a byte too many costs while a plan is mended


@dataclass(frozen=True, slots=True)
class _Open:
    """A subproblem: what all its plans take at least, bounds of the choices left, and where these are among all."""

    lower: float
    bounds: Bounds
    kept: list[Ints]
    price: float


class Limited:
    """The search for a plan that fits: tables of time, and per choice what it keeps, and needs while it runs."""

    def __init__(
        self,
        seconds: Problem,
        memory: Sequence[Floats],
        transient: Sequence[Floats],
        limit_bytes: float,
        best: Solution,
    ) -> None:
        self.seconds, self.limit, self.best = seconds, limit_bytes, best
        self.memory, self.transient = memory, transient
        self._mending = Mending(seconds, memory, transient, limit_bytes)
        self._noted: set[tuple[int, ...]] = set()
        self._dear = 0.0

    def closed(self, lower: float, price: float, settings: Settings) -> Solution:
        """The best plan in the time there is; its `lower` is what every plan that fits takes at least."""
        enough, began_s = 1 - max(ROUNDING, settings.gap), time.perf_counter()
        self._dear = _DEAR * price
        numbers = count()
        queue: list[tuple[float, int, _Open]] = []
        everything = [np.arange(size) for size in self.seconds.sizes]
        children = [_Open(lower, Bounds(problem=self._priced(everything, price)), everything, price)]
        while True:
            for child in children:
                if (looked := self._looked_into(child)) is not None:
                    heappush(queue, (looked.lower, next(numbers), looked))
            if not queue or queue[0][0] >= self.best.cost * enough:
                break
            patience_s = _PATIENCE_S if queue[0][0] < self.best.cost * (1 - CLOSE) else _SHORT_S
            if over(min(settings.deadline_s, began_s + patience_s)):
                break
            _, number, parent = heappop(queue)
            if number % 50 == 0:
                settings.progress(
                    f"branch and bound under the memory limit: {self.best.cost:.6g} s in hand, at least "
                    f"{parent.lower:.6g} s, {len(queue) + 1} open"
                )
            children = [
                _Open(parent.lower, parent.bounds.restricted(rows), _rows(parent.kept, rows), parent.price)
                for rows in self._halves(parent)
            ]
        reached = min((bound for bound, *_ in queue), default=self.best.cost)
        return Solution(
            choice=self.best.choice,
            cost=self.best.cost,
            lower=min(max(lower, reached), self.best.cost),
            method="branch and bound",
        )

    def _looked_into(self, child: _Open) -> _Open | None:
        """Bounds raised, prices moved on, what cannot fit or win dropped; None where nothing is left."""
        lower, bounds, kept, price = child.lower, child.bounds, child.kept, child.price
        for _ in range(_ROUNDS):
            left = self._affordable(kept)
            if left is None:
                return None
            if any(len(rows) < len(keep) for rows, keep in zip(left, kept, strict=True)):
                kept, bounds = _rows(kept, left), bounds.restricted(left)
            bounds = bounds.continued(self._priced(kept, price), [np.arange(len(keep)) for keep in kept])
            bounds.lower = -np.inf  # that was of another price; what is known of each choice stays true
            plan = [int(keep[a]) for keep, a in zip(kept, bounds.forward(), strict=True)]
            bounds.backward()
            self._note(plan)
            lower = max(lower, bounds.lower)
            if lower >= self.best.cost * (1 - ROUNDING):
                return None
            left = bounds.within(self.best.cost)
            kept, bounds = _rows(kept, left), bounds.restricted(left)
            if max(map(len, kept)) == 1:
                self._note([int(keep[0]) for keep in kept])
                return None
            over = sum(float(memory[a]) for memory, a in zip(self.memory, plan, strict=True)) - self._room(kept)
            if over:  # the longest step towards a higher bound that the plan in hand lets hope for
                price = max(0.0, price + (self.best.cost - bounds.lower) / over)
        return _Open(lower, bounds, kept, price)

    def _priced(self, kept: Sequence[Ints], price: float) -> Problem:
        fewer = self.seconds.restricted(kept)
        vectors = [
            vector + price * memory[keep] for vector, memory, keep in zip(fewer.vectors, self.memory, kept, strict=True)
        ]
        vectors[0] = vectors[0] - price * self._room(kept)
        return Problem(vectors=tuple(vectors), matrices=fewer.matrices)

    def _room(self, kept: Sequence[Ints]) -> float:
        """What all layers may keep together: some layer needs at least the rest while it runs."""
        return self.limit - max(float(needs[keep].min()) for needs, keep in zip(self.transient, kept, strict=True))

    def _affordable(self, kept: Sequence[Ints]) -> list[Ints] | None:
        """Per layer, the choices that fit where all other layers keep their fewest bytes; None where no plan fits."""
        fewest = [float(memory[keep].min()) for memory, keep in zip(self.memory, kept, strict=True)]
        at_least = self.limit - self._room(kept)
        left = [
            np.flatnonzero(sum(fewest) - few + memory[keep] + np.maximum(needs[keep], at_least) <= self.limit)
            for memory, needs, keep, few in zip(self.memory, self.transient, kept, fewest, strict=True)
        ]
        return left if all(map(len, left)) else None

    def _halves(self, parent: _Open) -> list[list[Ints]]:
        """The layer whose choices differ most in memory: the small ones, or the large ones; by time where none do."""
        held = [memory[keep] for memory, keep in zip(self.memory, parent.kept, strict=True)]
        node = int(np.argmax([memory.max() - memory.min() for memory in held]))
        middle = (held[node].max() + held[node].min()) / 2
        large = held[node] > middle
        if not large.any():
            node = int(np.argmax([len(keep) for keep in parent.kept]))
            large = np.arange(len(parent.kept[node])) != int(parent.bounds.of_choice[node].argmin())
        sizes = [len(keep) for keep in parent.kept]
        return [
            [half if other == node else np.arange(size) for other, size in enumerate(sizes)]
            for half in (np.flatnonzero(~large), np.flatnonzero(large))
        ]

    def _note(self, plan: Sequence[int]) -> None:
        """Keep the plan, as it is or mended, if it fits and is the fastest so far."""
        if tuple(plan) in self._noted:
            return
        self._noted.add(tuple(plan))
        for one in (list(plan), self._mending.mended(plan, self._dear)):
            if self._peak(one) <= self.limit and (cost := self.seconds.cost(one)) < self.best.cost:
                self.best = Solution(choice=tuple(one), cost=cost, lower=0.0, method="")

    def _peak(self, plan: Sequence[int]) -> float:
        kept = sum(float(memory[a]) for memory, a in zip(self.memory, plan, strict=True))
        return kept + max(float(needs[a]) for needs, a in zip(self.transient, plan, strict=True))


def _rows(kept: Sequence[Ints], rows: Sequence[Ints]) -> list[Ints]:
    return [keep[row] for keep, row in zip(kept, rows, strict=True)]
