"""The exact search: eliminate one layer after another.

Node elimination (a layer with one neighbour on each side) and edge elimination (two tables between the same pair) are
the layer-wise paper's two rules; both are the same step here. To eliminate layer j, add up every table that mentions
it and keep, for each choice of its neighbours, the best choice of j:

    table(c_i, c_k) = min over c_j of  vector(c_j) + table(c_i, c_j) + table(c_j, c_k)

A layer with more than two neighbours leaves a table of more than two dims, so any graph of bounded width is solved.
The order is greedy: the layer that is cheapest to eliminate next. Choices are read back in reverse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.search.problem import Floats, Problem
from slicewise.search.solution import Solution

_BLOCK_ITEMS = 4_000_000


@dataclass(frozen=True, slots=True)
class _Table:
    """Costs over the choices of `nodes`, one array dim each."""

    nodes: tuple[int, ...]
    costs: Floats


@dataclass(frozen=True, slots=True)
class _Undo:
    node: int
    neighbours: tuple[int, ...]
    best: NDArray[np.int64]  # the node's best choice for each choice of the neighbours


def eliminate(problem: Problem) -> Solution:
    sizes = [len(vector) for vector in problem.vectors]
    tables = [_Table((node,), vector) for node, vector in enumerate(problem.vectors)]
    tables += [_Table(pair, matrix) for pair, matrix in problem.matrices.items()]
    undo: list[_Undo] = []
    constant = 0.0
    remaining = set(range(len(sizes)))
    while remaining:
        node = min(remaining, key=lambda candidate: (_work(candidate, tables, sizes), candidate))
        remaining.remove(node)
        mine = [table for table in tables if node in table.nodes]
        tables = [table for table in tables if node not in table.nodes]
        neighbours = tuple(sorted({other for table in mine for other in table.nodes} - {node}))
        costs, best = _minimise_out(node, neighbours, mine, sizes)
        undo.append(_Undo(node, neighbours, best))
        if neighbours:
            tables.append(_Table(neighbours, costs))
        else:
            constant += float(costs)
    choice = [0] * len(sizes)
    for step in reversed(undo):
        choice[step.node] = int(step.best[tuple(choice[other] for other in step.neighbours)])
    return Solution(
        choice=tuple(choice), cost=constant, method="elimination", remaining_nodes=irreducible_nodes(problem)
    )


def _work(node: int, tables: Sequence[_Table], sizes: Sequence[int]) -> float:
    """Entries that eliminating `node` has to look at."""
    involved = {other for table in tables if node in table.nodes for other in table.nodes}
    return float(np.prod([float(sizes[other]) for other in involved]))


def _minimise_out(
    node: int, neighbours: tuple[int, ...], tables: Sequence[_Table], sizes: Sequence[int]
) -> tuple[Floats, NDArray[np.int64]]:
    """min over `node` of the sum of `tables`, in blocks along the first neighbour."""
    if not neighbours:
        total = sum((table.costs for table in tables), start=np.zeros(sizes[node]))
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
            total += _aligned(table, order, block)
        best[block] = total.argmin(axis=-1)
        costs[block] = np.take_along_axis(total, best[block][..., None], axis=-1)[..., 0]
    return costs, best


def _aligned(table: _Table, order: tuple[int, ...], block: slice) -> Floats:
    """The table's dims in `order`, missing ones of size 1, cut to `block` along the first."""
    places = [order.index(node) for node in table.nodes]
    costs = table.costs.transpose(np.argsort(places))
    if 0 in places:
        costs = costs[block]
    shape = [1] * len(order)
    for place, size in zip(sorted(places), costs.shape, strict=True):
        shape[place] = size
    return costs.reshape(shape)


def irreducible_nodes(problem: Problem) -> int:
    """The paper's K: nodes left when node and edge elimination alone can do no more."""
    before: dict[int, set[int]] = {node: set() for node in range(len(problem.vectors))}
    after: dict[int, set[int]] = {node: set() for node in range(len(problem.vectors))}
    for i, j in problem.matrices:
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
