"""Plans under a memory limit, and what memory costs in time.

Memory is a sum over layers, like time, so the Lagrangian  time + price * memory  is the same search with other vectors.
At price 0 the fastest plan comes out; as the price rises plans get smaller. Every price also gives a bound: no plan
that fits can be faster than  min(time + price * memory) - price * limit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicewise.cost.model import LayerSeconds
from slicewise.errors import MemoryLimitError
from slicewise.partition.choices import Floats
from slicewise.search.candidates import Candidates
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings, solve
from slicewise.units import amount

_PRICES = 12


def fastest(
    pool: Candidates, limit_bytes: float, plans: Sequence[Sequence[int]], settings: Settings, effort: Effort
) -> Solution:
    """The fastest plan whose peak fits; where the price leaves a gap, the solution's `lower` says how large."""
    free = solve(pool.model, pool.choices, pool.vectors, plans, settings, effort)
    if pool.memory(free.choice)[1] <= limit_bytes:
        return free
    best = smallest(pool, settings, effort)
    needs = pool.memory(best.choice)[1]
    if needs > limit_bytes:
        raise MemoryLimitError(
            f"no plan fits: the smallest needs {amount(needs, 'B')} per device, {amount(needs - limit_bytes, 'B')} "
            f"more than the limit of {amount(limit_bytes, 'B')}"
        )
    at_least = max(int(row.transient_bytes.min()) for row in pool.seconds)  # some layer needs that while it runs
    lower, cheap = free.lower, free
    for _ in range(_PRICES):
        # the price at which the two plans in hand would cost the same: the next corner lies between them
        saved = pool.memory(cheap.choice)[0] - pool.memory(best.choice)[0]
        if saved <= 0:
            break
        price = (best.cost - cheap.cost) / saved
        found = _at_price(pool, price, [cheap.choice, best.choice], settings, effort)
        lower = max(lower, found.lower - price * (limit_bytes - at_least))
        timed = replace(found, cost=_seconds(pool, found.choice))
        if timed.choice in (cheap.choice, best.choice):
            break
        if pool.memory(timed.choice)[1] > limit_bytes:
            cheap = timed
        elif timed.cost < best.cost:
            best = timed
        else:
            break
    return replace(best, lower=min(lower, best.cost))


def smallest(pool: Candidates, settings: Settings, effort: Effort) -> Solution:
    """The fastest among the plans with the smallest peak.

    Layers do not share memory: below any level of what a layer may need while it runs, each keeps its fewest bytes.
    """
    level, _ = smallest_peak(pool)
    kept = [
        np.flatnonzero((row.transient_bytes <= level) & (row.memory_bytes == _least(row, level)))
        for row in pool.seconds
    ]
    held = pool.rows_kept(kept)
    found = solve(pool.model, held.choices, held.vectors, [], settings, effort)
    choice = tuple(int(keep[a]) for keep, a in zip(kept, found.choice, strict=True))
    return replace(found, choice=choice)


def smallest_peak(pool: Candidates) -> tuple[int, int]:
    """What a layer may need while it runs in the plan with the smallest peak, and that peak."""
    levels = np.unique(np.concatenate([row.transient_bytes for row in pool.seconds]))
    levels = levels[levels >= max(int(row.transient_bytes.min()) for row in pool.seconds)]
    peaks = [int(level) + sum(_least(row, level) for row in pool.seconds) for level in levels]
    best = int(np.argmin(peaks))
    return int(levels[best]), peaks[best]


def _least(row: LayerSeconds, level: int) -> int:
    """The fewest bytes that a layer can keep where it may need `level` while it runs."""
    return int(row.memory_bytes[row.transient_bytes <= level].min())


def frontier(pool: Candidates, plans: Sequence[Sequence[int]], settings: Settings, points: int = 9) -> list[Solution]:
    """Plans between the fastest and the smallest, none of which is beaten in both: corners of the convex hull."""
    fast = solve(pool.model, pool.choices, pool.vectors, plans, settings, Effort())
    found = [fast, smallest(pool, settings, Effort())]
    gaps = [(0, 1)]
    while gaps and len(found) < points:
        one, other = gaps.pop(0)
        saved = pool.memory(found[one].choice)[0] - pool.memory(found[other].choice)[0]
        if saved <= 0:
            continue
        price = (found[other].cost - found[one].cost) / saved
        between = _at_price(pool, price, [found[one].choice, found[other].choice], settings, Effort())
        timed = replace(between, cost=_seconds(pool, between.choice))
        if timed.choice not in (found[one].choice, found[other].choice):
            found.append(timed)
            gaps += [(one, len(found) - 1), (len(found) - 1, other)]
    ordered = sorted(found, key=lambda plan: plan.cost)
    return [
        plan
        for number, plan in enumerate(ordered)
        if all(pool.memory(plan.choice)[1] < pool.memory(faster.choice)[1] for faster in ordered[:number])
    ]


def _at_price(
    pool: Candidates, price: float, plans: Sequence[Sequence[int]], settings: Settings, effort: Effort
) -> Solution:
    vectors: list[Floats] = [row.total_s + price * row.memory_bytes for row in pool.seconds]
    return solve(pool.model, pool.choices, vectors, plans, settings, effort)


def _seconds(pool: Candidates, choice: Sequence[int]) -> float:
    return sum(cost.total_s for cost in pool.model.plan_costs(pool.slicings(choice)).values())
