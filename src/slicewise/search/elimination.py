"""The exact search: eliminate one layer after another.

Node elimination (a layer with one neighbour on each side) and edge elimination (two tables between the same pair) are
the layer-wise paper's two rules; both are the same step here. To eliminate layer j, add up every table that mentions
it and keep, for each choice of its neighbours, the best choice of j:

    table(c_i, c_k) = min over c_j of  vector(c_j) + table(c_i, c_j) + table(c_j, c_k)

A layer with more than two neighbours leaves a table of more than two dims, so any graph of bounded width is solved.
The order is greedy: the layer that is cheapest to eliminate next. Choices are read back in reverse. Equal blocks of a
network have equal tables; what is done to one of them is not done again to the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod

import numpy as np
from numpy.typing import NDArray

from slicewise.partition.choices import Floats
from slicewise.search.problem import Problem
from slicewise.search.solution import Solution

_BLOCK_ITEMS = 4_000_000


@dataclass(frozen=True, slots=True)
class Order:
    """Which node goes when, and how many entries that looks at."""

    nodes: tuple[int, ...]
    work: float


@dataclass(frozen=True, slots=True)
class _Table:
    """Costs over the choices of `nodes`; tables of one `kind` have the same costs."""

    nodes: tuple[int, ...]
    kind: int


@dataclass(frozen=True, slots=True)
class _Step:
    """One node goes. Steps of one `kind` add up the same tables in the same way, so only the first is computed."""

    node: int
    neighbours: tuple[int, ...]
    tables: tuple[_Table, ...]
    kind: int


@dataclass(frozen=True, slots=True)
class Elimination:
    """All steps, and the entries that the distinct ones look at: equal blocks of a network cost as much as one."""

    steps: tuple[_Step, ...]
    tables: Mapping[int, Floats]  # by kind, those of the problem
    work: float


def eliminate(problem: Problem) -> Solution:
    return carried_out(planned(problem), problem.sizes)


def planned(problem: Problem) -> Elimination:
    """The steps, without looking at any entry."""
    sizes, tables = problem.sizes, dict[int, Floats]()
    numbers: dict[object, int] = {}

    def numbered(key: object, costs: Floats | None = None) -> int:
        number = numbers.setdefault(key, len(numbers))
        if costs is not None:
            tables[number] = costs
        return number

    touching = [[_Table((node,), numbered(vector.tobytes(), vector))] for node, vector in enumerate(problem.vectors)]
    for pair, matrix in problem.matrices.items():
        table = _Table(pair, numbered(id(matrix), matrix))
        for node in pair:
            touching[node].append(table)
    steps: list[_Step] = []
    work: dict[int, float] = {}
    for node in order(sizes, problem.matrices).nodes:
        mine = tuple(touching[node])
        neighbours = tuple(sorted({other for table in mine for other in table.nodes} - {node}))
        places = {other: place for place, other in enumerate((*neighbours, node))}
        summed = sorted((table.kind, tuple(places[other] for other in table.nodes)) for table in mine)
        kind = numbered((tuple(summed), tuple(sizes[other] for other in places)))
        work[kind] = prod((float(sizes[other]) for other in neighbours), start=float(sizes[node]))
        steps.append(_Step(node, neighbours, mine, kind))
        rest = _Table(neighbours, kind)
        for other in neighbours:
            touching[other] = [table for table in touching[other] if node not in table.nodes] + [rest]
    return Elimination(tuple(steps), tables, sum(work.values()))


def carried_out(plan: Elimination, sizes: Sequence[int]) -> Solution:
    costs = dict(plan.tables)
    best: dict[int, NDArray[np.int64]] = {}
    constant = 0.0
    for step in plan.steps:
        if step.kind not in best:
            costs[step.kind], best[step.kind] = _minimise_out(step, costs, sizes)
        if not step.neighbours:
            constant += float(costs[step.kind])
    choice = [0] * len(sizes)
    for step in reversed(plan.steps):
        choice[step.node] = int(best[step.kind][tuple(choice[other] for other in _deciding(step, sizes))])
    return Solution(choice=tuple(choice), cost=constant, lower=constant, method="elimination")


def order(sizes: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Order:
    """Greedy: always the node whose elimination looks at the fewest entries.

    Of several such, the one whose tables took the fewest steps so far. So a row of equal blocks is halved again and
    again, 24 to 12 to 6, instead of being eaten up from one end, and most steps have been done before.
    """
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    age = [0] * len(sizes)

    def work(node: int) -> float:
        return prod((float(sizes[other]) for other in near[node]), start=float(sizes[node]))

    queue = [(work(node), 0, node) for node in range(len(sizes))]
    heapify(queue)
    done: list[int] = []
    left = set(range(len(sizes)))
    total = 0.0
    while queue:
        expected, steps, node = heappop(queue)
        if node not in left or (expected, steps) != (work(node), age[node]):
            continue  # its neighbours changed: a newer entry is in the queue
        left.remove(node)
        done.append(node)
        total += expected
        for other in near[node]:
            near[other] = (near[other] | near[node]) - {node, other}
            age[other] = max(age[other], age[node] + 1)
        for other in near[node]:
            heappush(queue, (work(other), age[other], other))
    return Order(tuple(done), total)


def _deciding(step: _Step, sizes: Sequence[int]) -> tuple[int, ...]:
    """Neighbours that have a choice; only they are dims of arrays, for numpy has 64 dims at most."""
    return tuple(other for other in step.neighbours if sizes[other] > 1)


def _minimise_out(
    step: _Step, costs_of: Mapping[int, Floats], sizes: Sequence[int]
) -> tuple[Floats, NDArray[np.int64]]:
    """min over the node of the sum of its tables, in blocks along the first neighbour."""
    node, neighbours = step.node, _deciding(step, sizes)
    if not neighbours:
        total = sum((costs_of[table.kind].reshape(-1) for table in step.tables), start=np.zeros(sizes[node]))
        return np.asarray(total.min()), np.asarray(total.argmin())
    shape = tuple(sizes[other] for other in neighbours)
    inner = sizes[node] * int(np.prod(shape[1:], dtype=np.int64))
    height = max(1, _BLOCK_ITEMS // inner)
    costs, best = np.empty(shape), np.empty(shape, dtype=np.int64)
    order = (*neighbours, node)
    for start in range(0, shape[0], height):
        block = slice(start, min(start + height, shape[0]))
        total = _summed([_aligned(table, costs_of[table.kind], order, block, sizes) for table in step.tables])
        best[block] = total.argmin(axis=-1)
        costs[block] = np.take_along_axis(total, best[block][..., None], axis=-1)[..., 0]
    return costs, best


def _summed(tables: list[Floats]) -> Floats:
    """Of arrays that stretch to one shape; what fits into a larger one is added there first, while it is small."""
    left = sorted(tables, key=lambda table: table.size)
    merged: list[Floats] = []
    while left:
        table = left.pop(0)
        host = next((place for place, other in enumerate(left) if _fits(table, other)), None)
        if host is None:
            merged.append(table)
        else:
            left[host] = left[host] + table
    total: Floats = sum(merged[1:], start=merged[0])
    return total


def _fits(table: Floats, other: Floats) -> bool:
    return all(size in (1, full) for size, full in zip(table.shape, other.shape, strict=True))


def _aligned(table: _Table, costs: Floats, order: tuple[int, ...], block: slice, sizes: Sequence[int]) -> Floats:
    """The table's dims in `order`, missing ones of size 1, cut to `block` along the first."""
    several = [node for node in table.nodes if sizes[node] > 1]
    places = [order.index(node) for node in several]
    costs = costs.reshape([sizes[node] for node in several]).transpose(np.argsort(places))
    if 0 in places:
        costs = costs[block]
    shape = [1] * len(order)
    for place, size in zip(sorted(places), costs.shape, strict=True):
        shape[place] = size
    return costs.reshape(shape)


def irreducible_nodes(nodes: int, pairs: Iterable[tuple[int, int]]) -> int:
    """The paper's K: nodes left when node and edge elimination alone can do no more."""
    before: dict[int, set[int]] = {node: set() for node in range(nodes)}
    after: dict[int, set[int]] = {node: set() for node in range(nodes)}
    for i, j in pairs:
        after[i].add(j)
        before[j].add(i)
    pending = list(before)
    while pending:
        node = pending.pop()
        if node not in before or len(before[node]) != 1 or len(after[node]) != 1:
            continue
        (i,), (k,) = before.pop(node), after.pop(node)
        after[i].remove(node)
        before[k].remove(node)
        after[i].add(k)
        before[k].add(i)
        pending += [i, k]
    return len(before)
