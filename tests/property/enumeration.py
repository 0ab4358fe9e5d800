"""The slow truth about small search problems: what every plan costs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.partition.choices import Floats
from slicewise.search.problem import Problem


def every_plan(problem: Problem) -> Floats:
    """The cost of every combination, one array dim per node."""
    nodes = len(problem.vectors)
    costs = np.zeros(problem.sizes)
    for node, vector in enumerate(problem.vectors):
        costs += _spread(vector, [node], nodes)
    for pair, matrix in problem.matrices.items():
        costs += _spread(matrix, pair, nodes)
    return costs


def cheapest_with(problem: Problem) -> list[Floats]:
    """Per node, the cost of the cheapest plan with each of its choices."""
    costs = every_plan(problem)
    nodes = range(costs.ndim)
    return [costs.min(axis=tuple(other for other in nodes if other != node)) for node in nodes]


def every_peak(memory: Sequence[NDArray[Any]], transient: Sequence[NDArray[Any]]) -> Floats:
    """The peak of every combination: what all nodes keep, and the most that one of them needs while it runs."""
    nodes = len(memory)
    kept, needed = (np.zeros([len(row) for row in memory]) for _ in range(2))
    for node in range(nodes):
        kept += _spread(memory[node], [node], nodes)
        needed = np.maximum(needed, _spread(transient[node], [node], nodes))
    return kept + needed


def _spread(table: NDArray[Any], over: Sequence[int], nodes: int) -> NDArray[Any]:
    """`table` with a dim of size 1 for every node that it does not speak of."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if node in over else 1 for node in range(nodes)])
