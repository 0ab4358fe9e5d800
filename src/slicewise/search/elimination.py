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

from slicewise.partition.choices import Floats
from slicewise.search.deadline import check
from slicewise.search.problem import Problem
from slicewise.search.solution import Solution

_BLOCK_ITEMS = 1 << 15


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

    problem: Problem
    steps: tuple[_Step, ...]
    vectors: Mapping[int, Floats]  # by kind, with what is paid beside nodes without a choice
    pairs: Mapping[int, tuple[int, int]]  # by kind, an edge of the problem that has such a table
    decided: float  # what nodes without a choice cost, and the edges between them
    work: float


def eliminate(problem: Problem) -> Solution:
    return carried_out(planned(problem))


def planned(problem: Problem) -> Elimination:
    """The steps, without looking at any entry. Nodes without a choice have none: others pay for them."""
    sizes = problem.sizes
    numbers: dict[object, int] = {}

    def numbered(key: object) -> int:
        return numbers.setdefault(key, len(numbers))

    vectors, decided = _decided(problem)
    kinds = [numbered(vector.tobytes()) for vector in vectors]
    touching = [[_Table((node,), kind)] for node, kind in enumerate(kinds)]
    pairs: dict[int, tuple[int, int]] = {}
    for pair in problem.matrices:
        if sizes[pair[0]] > 1 < sizes[pair[1]]:
            table = _Table(pair, numbered(problem.name(pair)))
            pairs[table.kind] = pair
            for node in pair:
                touching[node].append(table)
    steps: list[_Step] = []
    work: dict[int, float] = {}
    for node in order(sizes, problem.matrices).nodes:
        if sizes[node] == 1:
            continue
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
    by_kind = dict(zip(kinds, vectors, strict=True))
    return Elimination(problem, tuple(steps), by_kind, pairs, decided, sum(work.values()))


def _decided(problem: Problem) -> tuple[list[Floats], float]:
    """Every node's vector with what it pays beside nodes without a choice, and what those pay by themselves."""
    vectors, sizes = list(problem.vectors), problem.sizes
    decided = sum(float(vector[0]) for vector in vectors if len(vector) == 1)
    for i, j in problem.matrices:
        if sizes[i] == 1 == sizes[j]:
            decided += float(problem.matrices[i, j][0, 0])
        elif sizes[i] == 1:
            vectors[j] = vectors[j] + problem.matrices[i, j][0]
        elif sizes[j] == 1:
            vectors[i] = vectors[i] + problem.matrices[i, j][:, 0]
    return vectors, decided


def carried_out(plan: Elimination, deadline_s: float = float("inf")) -> Solution:
    problem, sizes = plan.problem, plan.problem.sizes
    costs = {**plan.vectors, **{kind: problem.matrices[pair] for kind, pair in plan.pairs.items()}}
    constant = plan.decided
    for step in plan.steps:
        if step.kind not in costs:
            costs[step.kind] = _minimise_out(step, costs, sizes, deadline_s)
        if not step.neighbours:
            constant += float(costs[step.kind])
    choice = [0] * len(sizes)
    for step in reversed(plan.steps):
        choice[step.node] = _best(step, costs, choice, sizes)
    return Solution(choice=tuple(choice), cost=constant, lower=constant, method="elimination")


def order(sizes: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Order:
    """Greedy: always the node whose elimination looks at the fewest entries.

    Of several such, the one whose tables took the fewest steps so far. So a row of equal blocks is halved again and
    again, 24 to 12 to 6, instead of being eaten up from one end, and most steps have been done before. Nodes without a
    choice join nobody: they go first.
    """
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in pairs:
        if sizes[i] > 1 < sizes[j]:
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


def _best(step: _Step, costs_of: Mapping[int, Floats], choice: Sequence[int], sizes: Sequence[int]) -> int:
    """The node's best choice beside those of its neighbours."""
    total = np.zeros(sizes[step.node])
    for table in step.tables:
        total += costs_of[table.kind][tuple(slice(None) if node == step.node else choice[node] for node in table.nodes)]
    return int(total.argmin())


def _minimise_out(
    step: _Step, costs_of: Mapping[int, Floats], sizes: Sequence[int], deadline_s: float = float("inf")
) -> Floats:
    """min over the node of the sum of its tables, in blocks that stay in the processor's cache."""
    node, neighbours = step.node, step.neighbours
    order = (node, *neighbours)
    tables = _merged([_aligned(table, costs_of[table.kind], order) for table in step.tables])
    shape = tuple(sizes[other] for other in neighbours)
    if len(tables) == 1:
        return np.asarray(np.broadcast_to(tables[0], (sizes[node], *shape)).min(axis=0))
    tables = [np.ascontiguousarray(table) for table in tables]
    inner = int(np.prod(shape[1:], dtype=np.int64))
    height = min(shape[0], max(1, _BLOCK_ITEMS // inner))
    depth = min(sizes[node], max(1, _BLOCK_ITEMS // (inner * height)))
    costs = np.full(shape, np.inf)
    room = np.empty((depth, height, *shape[1:]))
    for start in range(0, shape[0], height):
        check(deadline_s)
        least = costs[start : start + height]
        cut = [table if table.shape[1] == 1 else table[:, start : start + height] for table in tables]
        for first in range(0, sizes[node], depth):
            one, other, *more = (table[first : first + depth] for table in cut)
            total = np.add(one, other, out=room[: min(depth, sizes[node] - first), : len(least)])
            for table in more:
                total += table
            np.minimum(least, total[0] if len(total) == 1 else total.min(axis=0), out=least)
    return costs


def _merged(tables: list[Floats]) -> list[Floats]:
    """Arrays that stretch to one shape; what fits into a larger one is added there, while it is small."""
    left = sorted(tables, key=lambda table: table.size)
    merged: list[Floats] = []
    while left:
        table = left.pop(0)
        host = next((place for place, other in enumerate(left) if _fits(table, other)), None)
        if host is None:
            merged.append(table)
        else:
            left[host] = left[host] + table
    return merged


def _fits(table: Floats, other: Floats) -> bool:
    return all(size in (1, full) for size, full in zip(table.shape, other.shape, strict=True))


def _aligned(table: _Table, costs: Floats, order: tuple[int, ...]) -> Floats:
    """The table's dims in `order`, missing ones of size 1."""
    places = [order.index(node) for node in table.nodes]
    costs = costs.transpose(np.argsort(places))
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
