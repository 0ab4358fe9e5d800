"""Plans under a memory limit, and what memory costs in time.

Memory is a sum over layers, like time, so the Lagrangian  time + price * memory  is the same search with other vectors.
At price 0 the fastest plan comes out; as the price rises plans get smaller. Every price also gives a bound: no plan
that fits can be faster than  min(time + price * memory) - price * limit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicewise.partition.choices import Floats
from slicewise.search.candidates import Candidates
from slicewise.search.memory import decisions, smallest_peak
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings, best_known, solve

_PRICES = 12


def fastest_that_fits(
    pool: Candidates,
    limit_bytes: float,
    free: Solution,
    plans: Sequence[Sequence[int]],
    settings: Settings,
    effort: Effort,
) -> Solution:
    """Where `free`, the fastest plan of all, does not fit; `plans` do, and so does the smallest.

    Where the price leaves a gap, the solution's `lower` says how large.
    """
    small = smallest(pool, settings, effort)
    best = min(small, best_known(pool.model, pool.choices, pool.vectors, plans), key=lambda plan: plan.cost)
    at_least = max(int(row.transient_bytes.min()) for row in pool.seconds)  # some layer needs that while it runs
    lower, cheap = free.lower, free
    for _ in range(_PRICES):
        # the price at which the two plans in hand would cost the same: the next corner lies between them
        saved = pool.memory(cheap.choice)[0] - pool.memory(small.choice)[0]
        if saved <= 0 or small.cost <= cheap.cost:
            break
        price = (small.cost - cheap.cost) / saved
        found = _at_price(pool, price, [cheap.choice, small.choice], settings, effort)
        lower = max(lower, found.lower - price * (limit_bytes - at_least))
        timed = _timed(pool, found)
        if timed.choice in (cheap.choice, small.choice):
            break
        if pool.memory(timed.choice)[1] > limit_bytes:
            cheap = timed
        else:
            small = timed
            best = min(best, timed, key=lambda plan: plan.cost)
    return replace(best, lower=min(lower, best.cost), method=free.method)


def smallest(pool: Candidates, settings: Settings, effort: Effort) -> Solution:
    """The fastest among the plans with the smallest peak.

    Layers do not share memory: below any level of what a layer may need while it runs, each keeps its fewest bytes.
    """
    level, _ = smallest_peak(pool)
    kept = [np.empty(0, dtype=np.int64)] * len(pool.choices)
    for layers, memory, transient in decisions(pool):
        fewest = memory[transient <= level].min()
        for layer in layers:
            kept[layer] = np.flatnonzero((transient <= level) & (memory == fewest))
    held = pool.rows_kept(kept)
    found = solve(pool.model, held.choices, held.vectors, [], settings, effort)
    choice = tuple(int(keep[a]) for keep, a in zip(kept, found.choice, strict=True))
    return replace(found, choice=choice)


def frontier(pool: Candidates, plans: Sequence[Sequence[int]], settings: Settings, points: int = 9) -> list[Solution]:
    """Plans between the fastest and the smallest, none of which is beaten in both: corners of the convex hull."""
    fast = solve(pool.model, pool.choices, pool.vectors, plans, settings, Effort())
    found = [fast, smallest(pool, settings, Effort())]
    gaps = [(0, 1)]
    while gaps and len(found) < points:
        one, other = gaps.pop(0)
        saved = pool.memory(found[one].choice)[0] - pool.memory(found[other].choice)[0]
        if saved <= 0 or found[other].cost <= found[one].cost:
            continue
        price = (found[other].cost - found[one].cost) / saved
        between = _at_price(pool, price, [found[one].choice, found[other].choice], settings, Effort())
        timed = _timed(pool, between)
        if timed.choice not in (found[one].choice, found[other].choice):
            found.append(timed)
            gaps += [(one, len(found) - 1), (len(found) - 1, other)]
    ordered = sorted(found, key=lambda plan: (plan.cost, pool.memory(plan.choice)[1]))
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


def _timed(pool: Candidates, found: Solution) -> Solution:
    """The same plan with what it costs in time alone."""
    return replace(found, cost=best_known(pool.model, pool.choices, pool.vectors, [found.choice]).cost)
