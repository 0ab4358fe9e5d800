"""Plans under a memory limit, and what memory costs in time.

Memory is a sum over layers, like time, so the Lagrangian  time + price * memory  is the same search with other vectors.
At price 0 the fastest plan comes out; as the price rises plans get smaller. Every price also gives a bound: no plan
that fits can be faster than  min(time + price * memory) - price * limit. Where the two stay apart, branch and bound
goes on (search/limited.py).
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slicewise.partition.choices import Floats
from slicewise.search.candidates import Candidates
from slicewise.search.deadline import over
from slicewise.search.limited import CLOSE, Limited
from slicewise.search.memory import decisions, smallest_peak
from slicewise.search.problem import Problem, edge_tables, tie_tables
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings, best_known, solve
from slicewise.units import ROUNDING

_PRICES = 12
_NEARLY = 0.001  # of the cost: prices that could raise the bound by no more are not tried
_ENTRIES, _FEW_ENTRIES = 3e7, 1e6  # of all tables together: what branch and bound takes on, and for a small gap


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
    lower, cheap, best_price = free.lower, free, 0.0
    for _ in range(_PRICES):
        # the price at which the two plans in hand would cost the same: the next corner lies between them
        saved = pool.memory(cheap.choice)[0] - pool.memory(small.choice)[0]
        if saved <= 0 or small.cost <= cheap.cost or over(settings.deadline_s):
            break
        price = (small.cost - cheap.cost) / saved
        highest_s = small.cost + price * pool.memory(small.choice)[0]  # the bound of no price lies above this line
        found = _at_price(pool, price, [cheap.choice, small.choice], settings, effort)
        if (reached := found.lower - price * (limit_bytes - at_least)) > lower:
            lower, best_price = reached, price
        timed = _timed(pool, found)
        if timed.choice in (cheap.choice, small.choice):
            break
        if pool.memory(timed.choice)[1] > limit_bytes:
            cheap = timed
        else:
            small = timed
            best = min(best, timed, key=lambda plan: plan.cost)
        if found.cost >= highest_s - _NEARLY * best.cost or lower >= best.cost * (1 - settings.gap):
            break
    best = replace(best, lower=min(lower, best.cost), method=free.method)
    if best.lower >= best.cost * (1 - max(ROUNDING, settings.gap)):
        return best
    return _branched(pool, limit_bytes, best, best_price, settings, effort)


def _branched(
    pool: Candidates, limit_bytes: float, best: Solution, price: float, settings: Settings, effort: Effort
) -> Solution:
    """Branch and bound from where the prices ended, among the choices that a faster plan may use."""
    began_s = time.perf_counter()
    least = sum(float(vector.min()) for vector in pool.vectors)
    kept = [np.flatnonzero(least + vector - vector.min() <= best.cost) for vector in pool.vectors]
    entries = sum(float(len(kept[i])) * len(kept[j]) for i, j, _ in pool.model.graph.edges)
    if entries > (_ENTRIES if best.lower < best.cost * (1 - CLOSE) else _FEW_ENTRIES):
        return best
    held = pool.rows_kept(kept)
    matrices = edge_tables(held.model, held.choices)
    for pair, matrix in tie_tables(held.model, held.choices, 2 * best.cost).items():
        matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
    problem = Problem(vectors=tuple(held.vectors), matrices=matrices)
    tabled_s = time.perf_counter()
    effort.tables_s += tabled_s - began_s
    start = replace(
        best, choice=tuple(int(np.searchsorted(keep, a)) for keep, a in zip(kept, best.choice, strict=True))
    )
    memory = [row.memory_bytes.astype(float) for row in held.seconds]
    transient = [row.transient_bytes.astype(float) for row in held.seconds]
    found = Limited(problem, memory, transient, limit_bytes, start).closed(best.lower, price, settings)
    effort.search_s += time.perf_counter() - tabled_s
    return replace(found, choice=tuple(int(keep[a]) for keep, a in zip(kept, found.choice, strict=True)))


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


def corners(pool: Candidates, plans: Sequence[Sequence[int]], settings: Settings, points: int = 9) -> list[Solution]:
    """Plans between the fastest and the smallest, by the sum of terms: corners of the convex hull."""
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
    return found


def _at_price(
    pool: Candidates, price: float, plans: Sequence[Sequence[int]], settings: Settings, effort: Effort
) -> Solution:
    vectors: list[Floats] = [row.total_s + price * row.memory_bytes for row in pool.seconds]
    return solve(pool.model, pool.choices, vectors, plans, settings, effort)


def _timed(pool: Candidates, found: Solution) -> Solution:
    """The same plan with what it costs in time alone."""
    return replace(found, cost=best_known(pool.model, pool.choices, pool.vectors, [found.choice]).cost)
