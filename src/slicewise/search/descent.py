"""From good plans to one that no small change makes faster, judged by the simulated step.

Of a plan's neighbours (search/neighbours.py) the promising ones are simulated, many at once, and the best are taken
together as long as that helps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, permutations

import numpy as np

from slicewise.partition.choices import Ints
from slicewise.search.deadline import over
from slicewise.search.neighbours import Move, Neighbours
from slicewise.search.shortlist import Rows, Shortlist
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING

_AT_ONCE = 256  # plans of a kind simulated in a round
_LAST = 4  # times as many, before a plan is said to be the end
_TOGETHER = 32  # moves taken together, at most
_ROUNDS = 24
BUCKETS = tuple(mebibytes << 20 for mebibytes in (1, 2, 4, 10, 25, 100))
_WORTH = 0.005  # of the step: what another size of buckets must gain

_Timed = tuple[float, list[int]]  # a step's seconds, and its plan


class Descent:
    """Moves from plan to plan on a shortlist."""

    def __init__(self, listed: Shortlist, many: ManyPlans, memory_limit_bytes: float) -> None:
        self.listed, self.many, self.limit = listed, many, memory_limit_bytes
        self.neighbours = Neighbours(listed)
        self._numbers = many.numbers(listed.pool.choices)

    def descend(
        self, plan: Rows, others: Sequence[Rows] = (), deadline_s: float = float("inf")
    ) -> tuple[list[int], float]:
        """A plan that none of the moves improves, and its step: from the given one, or from what two plans that are
        known give together. Parts of the `others` are moves too."""
        known = [list(rows) for rows in dict.fromkeys(map(tuple, (plan, *others)))]
        first_s = self.simulated_s([plan])[0]
        best = self._descended((first_s, known[0]), known, deadline_s)
        if not over(deadline_s) and (crossed := self._crossed(known, first_s)):
            best = min(best, self._descended(crossed, known, deadline_s))
        for _ in range(_ROUNDS):
            if over(deadline_s) or not (better := self._improved(best, known, _LAST)):
                break
            best = self._descended(better, known, deadline_s)
        return best[1], best[0]

    def _descended(self, best: _Timed, known: Sequence[Rows], deadline_s: float) -> _Timed:
        for _ in range(_ROUNDS):
            if over(deadline_s) or not (better := self._improved(best, known)):
                break
            best = better
        return best

    def _crossed(self, known: Sequence[Rows], now_s: float) -> _Timed | None:
        """The fastest of what two known plans give together, where that takes less."""
        below_s = now_s * (1 - ROUNDING)
        crossed = self.neighbours.crossed([*permutations(known, 2)], below_s)
        return next(iter(self._faster(crossed.promising(_LAST * _AT_ONCE, below_s), below_s)), None)

    def _improved(self, best: _Timed, known: Sequence[Rows], times: int = 1) -> _Timed | None:
        """One round: the best of what so many times the usual number of simulations finds."""
        now_s, now = best
        below_s = now_s * (1 - ROUNDING)
        faster = self._faster(self._promising(now, known, below_s, times), below_s)
        moves = [{n: row for n, row in enumerate(plan) if row != now[n]} for _, plan in faster]
        joined = [joined for joined in self.joined(now, moves) if self.fits(joined)]
        return min(zip(self.simulated_s(joined), joined, strict=True)) if joined else None

    def _promising(self, now: list[int], known: Sequence[Rows], below_s: float, times: int) -> Ints:
        """Of each kind of neighbours those to simulate."""
        most = times * _AT_ONCE
        pairs = [pair for other in known for pair in ((now, other), (other, now))]
        return np.concatenate(
            [
                self.neighbours.near(now, known, below_s).promising(most, below_s),
                self.neighbours.crossed(pairs, below_s, everywhere=times > 1).promising(most, below_s),
                self.neighbours.single(now, most, below_s),
            ]
        )

    def _faster(self, plans: Ints, below_s: float) -> list[_Timed]:
        """Those whose step is shorter and that fit, the fastest first: as many as may be taken together."""
        listed = plans.tolist()
        timed = sorted(zip(self.simulated_s(listed), listed, strict=True)) if listed else []
        return list(islice((pair for pair in timed if pair[0] < below_s and self.fits(pair[1])), _TOGETHER))

    def simulated_s(self, plans: Sequence[Rows]) -> list[float]:
        return self.many.steps_s(self._columns(plans), len(plans))

    def exposed_s(self, plan: Rows) -> float:
        """What the step waits for gradients."""
        return float(self.many.play(self._columns([plan])).exposed_sync_s[0])

    def fastest_bucket(self, plan: Rows) -> int:
        """Bytes of gradients to sum together: not the model's only where the step is shorter by a share."""
        columns, given = self._columns([plan]), self.listed.model.training
        played = self.many.play(columns)
        took_s = float(played.seconds[0])
        if played.exposed_sync_s[0] <= _WORTH * took_s:  # nothing to gain
            return given.bucket_bytes
        steps_s = {given.bucket_bytes: took_s * (1 - _WORTH)}
        for size in BUCKETS:
            if size not in steps_s:
                trained = replace(given, bucket_bytes=size)
                steps_s[size] = float(self.many.play(columns, trained.bucket_items).seconds[0])
        return min(steps_s, key=lambda size: steps_s[size])

    def _columns(self, plans: Sequence[Rows]) -> list[Ints]:
        return [
            numbers[list(rows if len(set(rows)) > 1 else rows[:1])]
            for numbers, rows in zip(self._numbers, zip(*plans, strict=True), strict=True)
        ]

    def fits(self, plan: Rows) -> bool:
        return self.listed.pool.memory(plan)[1] <= self.limit

    def joined(self, now: list[int], moves: Sequence[Move]) -> Iterator[list[int]]:
        """The first move, the first two, and so on, of those that touch different layers."""
        plan, touched = list(now), set[int]()
        for move in moves[:_TOGETHER]:
            if touched & move.keys():
                continue
            for node, row in move.items():
                plan[node] = row
            touched |= move.keys()
            yield list(plan)
