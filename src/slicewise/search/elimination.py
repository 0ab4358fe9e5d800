"""The exact search: eliminate one layer after another.

Node elimination (a layer with one neighbour on each side) and edge elimination (two tables between the same pair) are
the layer-wise paper's two rules; both are the same step here. To eliminate layer j, add up every table that mentions
it and keep, for each choice of its neighbours, the best choice of j:

    table(c_i, c_k) = min over c_j of  vector(c_j) + table(c_i, c_j) + table(c_j, c_k)

A layer with more than two neighbours leaves a table of more than two dims, so any graph of bounded width is solved.
The order is greedy: the layer that is cheapest to eliminate next. Choices are read back in reverse.
"""

from collections.abc import Iterable, Sequence
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
    """Costs over the choices of `nodes`; one array dim for each that has several, for numpy has 64 dims at most."""

    nodes: tuple[int, ...]
    costs: Floats


@dataclass(frozen=True, slots=True)
class _Undo:
    node: int
    neighbours: tuple[int, ...]  # that have a choice
    best: NDArray[np.int64]  # the node's best choice for each choice of the neighbours


def eliminate(problem: Problem) -> Solution:
    sizes = problem.sizes

    def table_of(nodes: tuple[int, ...], costs: Floats) -> _Table:
        return _Table(nodes, costs.reshape([sizes[node] for node in nodes if sizes[node] > 1]))

    touching: list[list[_Table]] = [[table_of((node,), vector)] for node, vector in enumerate(problem.vectors)]
    for pair, matrix in problem.matrices.items():
        table = table_of(pair, matrix)
        for node in pair:
            touching[node].append(table)
    undo: list[_Undo] = []
    constant = 0.0
    for node in order(sizes, problem.matrices).nodes:
        mine = touching[node]
        neighbours = tuple(sorted({other for table in mine for other in table.nodes} - {node}))
        deciding = tuple(other for other in neighbours if sizes[other] > 1)
        costs, best = _minimise_out(node, deciding, mine, sizes)
        undo.append(_Undo(node, deciding, best))
        rest = _Table(neighbours, costs)
        for other in neighbours:
            touching[other] = [table for table in touching[other] if node not in table.nodes] + [rest]
        if not neighbours:
            constant += float(costs)
        touching[node] = []
    choice = [0] * len(sizes)
    for step in reversed(undo):
        choice[step.node] = int(step.best[tuple(choice[other] for other in step.neighbours)])
    return Solution(choice=tuple(choice), cost=constant, lower=constant, method="elimination")


def order(sizes: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Order:
    """Greedy: always the node whose elimination looks at the fewest entries."""
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)

    def work(node: int) -> float:
        return prod((float(sizes[other]) for other in near[node]), start=float(sizes[node]))

    queue = [(work(node), node) for node in range(len(sizes))]
    heapify(queue)
    done: list[int] = []
    left = set(range(len(sizes)))
    total = 0.0
    while queue:
        expected, node = heappop(queue)
        if node not in left or expected != work(node):
            continue  # its neighbours changed: a newer entry is in the queue
        left.remove(node)
        done.append(node)
        total += expected
        for other in near[node]:
            near[other] = (near[other] | near[node]) - {node, other}
        for other in near[node]:
            heappush(queue, (work(other), other))
    return Order(tuple(done), total)


def _minimise_out(
    node: int, neighbours: tuple[int, ...], tables: Sequence[_Table], sizes: Sequence[int]
) -> tuple[Floats, NDArray[np.int64]]:
    """min over `node` of the sum of `tables`, in blocks along the first neighbour."""
    if not neighbours:
        total = sum((table.costs.reshape(-1) for table in tables), start=np.zeros(sizes[node]))
        return np.asarray(total.min()), np.asarray(total.argmin())
    shape = tuple(sizes[other] for other in neighbours)
    inner = sizes[node] * int(np.prod(shape[1:], dtype=np.int64))
    height = max(1, _BLOCK_ITEMS // inner)
    costs, best = np.empty(shape), np.empty(shape, dtype=np.int64)
    order = (*neighbours, node)
    for start in range(0, shape[0], height):
        block = slice(start, min(start + height, shape[0]))
        total = np.zeros((block.stop - start, *shape[1:], sizes[node]))
        for table in tables:
            total += _aligned(table, order, block, sizes)
        best[block] = total.argmin(axis=-1)
        costs[block] = np.take_along_axis(total, best[block][..., None], axis=-1)[..., 0]
    return costs, best


def _aligned(table: _Table, order: tuple[int, ...], block: slice, sizes: Sequence[int]) -> Floats:
    """The table's dims in `order`, missing ones of size 1, cut to `block` along the first."""
    places = [order.index(node) for node in table.nodes if sizes[node] > 1]
    costs = table.costs.transpose(np.argsort(places))
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
