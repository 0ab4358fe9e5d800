"""Depth-first search and elimination on the same tables, over the layers that the paper counts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.legal import Space, legal_choices
from slicewise.search.problem import Problem

_COUNTED = (Kind.CONV, Kind.POOL, Kind.LINEAR, Kind.CONCAT, Kind.REDUCE)  # the others go with the layer before them


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a depth-first search looked at."""

    cost: float
    choice: tuple[int, ...]
    leaves: int
    nodes: int
    seconds: float

    @property
    def leaves_per_s(self) -> float:
        return self.leaves / self.seconds


def counted_layers(model: CostModel, space: Space) -> tuple[int, float]:
    """How many layers the paper counts, and the logarithm of the number of plans they have."""
    layers = [layer for layer in model.graph if layer.kind in _COUNTED]
    return len(layers), sum(log10(len(legal_choices(layer, model.cluster.mesh, space))) for layer in layers)


def chain(model: CostModel, space: Space) -> Problem:
    """The tables of a network without branches, one node per counted layer with what follows it sliced alike.

    Input and output have one slicing each; what they cost belongs to their neighbours.
    """
    mesh, layers = model.cluster.mesh, model.graph.layers
    assert all(len(layer.inputs) <= 1 for layer in layers), "only chains"
    stretches: list[list[Layer]] = []
    for layer in layers[1:-1]:
        if layer.kind in _COUNTED or not stretches:
            stretches.append([])
        stretches[-1].append(layer)
    first, last = (legal_choices(layer, mesh, space) for layer in (layers[0], layers[-1]))
    vectors: list[Floats] = []
    matrices: dict[tuple[int, int], Floats] = {}
    before: Choices | None = None
    for node, stretch in enumerate(stretches):
        rows = _common([legal_choices(layer, mesh, space) for layer in stretch])
        vector = sum((model.layer_seconds(layer, rows).total_s for layer in stretch), np.zeros(len(rows)))
        for layer in stretch[1:]:
            vector = vector + np.diagonal(model.edge_seconds(layer, 0, rows, rows))
        if before is None:
            vector = vector + model.edge_seconds(stretch[0], 0, first, rows)[0]
        else:
            matrices[node - 1, node] = model.edge_seconds(stretch[0], 0, before, rows)
        vectors.append(vector)
        before = rows
    assert before is not None
    vectors[-1] = vectors[-1] + model.edge_seconds(layers[-1], 0, before, last)[:, 0]
    ends = sum(
        float(model.layer_seconds(layer, rows).total_s[0]) for layer, rows in ((layers[0], first), (layers[-1], last))
    )
    vectors[0] = vectors[0] + ends
    return Problem(vectors=tuple(vectors), matrices=matrices)


def _common(lists: Sequence[Choices]) -> Choices:
    """The slicings that all layers of a stretch have."""
    rows = [row for row in range(len(lists[0])) if all(other.find(lists[0][row]) is not None for other in lists[1:])]
    return lists[0].rows(np.array(rows, dtype=np.int64))


def depth_first(problem: Problem, bounded: bool) -> Visit:
    """Every plan of a chain; `bounded`, only those whose beginning leaves room for something cheaper.

    The bound is the weakest there is, so that it owes nothing to elimination: every layer still to come at its
    cheapest, layout changes for nothing.
    """
    vectors = [vector.tolist() for vector in problem.vectors]
    tables = [problem.matrices[node, node + 1].tolist() for node in range(len(vectors) - 1)]
    depth = len(vectors)
    rest = [sum(min(vector) for vector in vectors[node + 1 :]) if bounded else float("-inf") for node in range(depth)]
    # cheapest first: a good plan is found early, and bounds bite
    order = [
        sorted(range(len(vector)), key=vector.__getitem__) if bounded else range(len(vector)) for vector in vectors
    ]
    best = float("inf")
    best_choice: tuple[int, ...] = ()
    leaves = nodes = 0
    chosen = [0] * depth

    def descend(node: int, cost: float) -> None:
        nonlocal best, best_choice, leaves, nodes
        vector, row = vectors[node], tables[node - 1][chosen[node - 1]] if node else None
        for option in order[node]:
            nodes += 1
            total = cost + vector[option] + (row[option] if row is not None else 0.0)
            if total + rest[node] >= best:
                continue
            chosen[node] = option
            if node < depth - 1:
                descend(node + 1, total)
            elif total < best:  # without bounds nothing above has asked
                best, best_choice = total, tuple(chosen)
        if node == depth - 1:
            leaves += len(vector)

    started = time.perf_counter()
    descend(0, 0.0)
    seconds = time.perf_counter() - started
    return Visit(cost=best, choice=best_choice, leaves=leaves, nodes=nodes, seconds=seconds)
