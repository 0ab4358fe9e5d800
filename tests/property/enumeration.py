"""The slow truth about small search problems: what every plan costs."""

from collections.abc import Sequence

import numpy as np

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


def _spread(table: Floats, over: Sequence[int], nodes: int) -> Floats:
    """`table` with a dim of size 1 for every node that it does not speak of."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if node in over else 1 for node in range(nodes)])
