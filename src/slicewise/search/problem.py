"""The search problem as tables: one vector per layer, one matrix per edge."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.model import CostModel
from slicewise.cost.network import Network
from slicewise.cost.transitions import transition_seconds
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.legal import Space, legal_slicings

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """minimise  sum_i vectors[i][a_i] + sum_(i,j) matrices[i, j][a_i, a_j]  over one choice a_i per node."""

    vectors: tuple[Floats, ...]
    matrices: Mapping[tuple[int, int], Floats]  # i < j

    def cost(self, choice: Sequence[int]) -> float:
        return float(
            sum(vector[a] for vector, a in zip(self.vectors, choice, strict=True))
            + sum(matrix[choice[i], choice[j]] for (i, j), matrix in self.matrices.items())
        )

    def restricted(self, kept: Sequence[NDArray[np.int64]]) -> "Problem":
        """The same problem with only the `kept` choices of each node."""
        return Problem(
            vectors=tuple(vector[keep] for vector, keep in zip(self.vectors, kept, strict=True)),
            matrices={(i, j): matrix[np.ix_(kept[i], kept[j])] for (i, j), matrix in self.matrices.items()},
        )


Slicings = tuple[tuple[Slicing, ...], ...]  # the choices of each layer


def cost_layers(
    model: CostModel, space: Space, plans: Sequence[Mapping[str, Slicing]] = ()
) -> tuple[Slicings, tuple[Floats, ...]]:
    """Every legal slicing of every layer, those of `plans` included, and what it costs by itself.

    Equal layers are costed once.
    """
    planned: dict[object, list[Slicing]] = defaultdict(list)
    for layer in model.graph:
        planned[likeness(model, layer)] += [plan[layer.name] for plan in plans]
    known: dict[object, tuple[tuple[Slicing, ...], Floats]] = {}
    for layer in model.graph:
        key = likeness(model, layer)
        if key not in known:
            legal = legal_slicings(layer, model.cluster.mesh, space)
            slicings = tuple(dict.fromkeys([*legal, *planned[key]]))
            costs = np.array([model.layer_cost(layer, slicing).total_s for slicing in slicings])
            known[key] = slicings, costs
    rows = [known[likeness(model, layer)] for layer in model.graph]
    return tuple(slicings for slicings, _ in rows), tuple(costs for _, costs in rows)


def cost_edges(model: CostModel, slicings: Slicings) -> dict[tuple[int, int], Floats]:
    """Every pair of choices along every edge; equal edges are costed once."""
    graph = model.graph
    known: dict[object, Floats] = {}
    matrices: dict[tuple[int, int], Floats] = {}
    for producer, consumer, slot in graph.edges:
        before, after = graph.layers[producer], graph.layers[consumer]
        key = (likeness(model, before), likeness(model, after), slot, slicings[producer], slicings[consumer])
        if key not in known:
            known[key] = _edge_matrix(model, before, slicings[producer], after, slicings[consumer], slot)
        pair = (producer, consumer)
        matrices[pair] = matrices[pair] + known[key] if pair in matrices else known[key]
    return matrices


def likeness(model: CostModel, layer: Layer) -> object:
    """Layers with the same key cost the same, whatever their names."""
    return (
        layer.kind,
        layer.input_shapes,
        layer.input_dims,
        layer.shape,
        layer.dims,
        tuple((weight.shape, weight.dims) for weight in layer.weights),
        tuple(layer.windows.items()),
        layer.groups,
        layer.statistics,
        bool(layer.options.get("in_place")),
        layer.name in model.graph.gradients,
        model.wants_input_gradient(layer),
    )


def _edge_matrix(
    model: CostModel,
    before: Layer,
    before_slicings: Sequence[Slicing],
    after: Layer,
    after_slicings: Sequence[Slicing],
    slot: int,
) -> Floats:
    sources = [layouts(before, slicing) for slicing in before_slicings]
    targets = [layouts(after, slicing) for slicing in after_slicings]
    matrix = _pairs(before.shape, [s.output for s in sources], [t.inputs[slot] for t in targets], model)
    if before.name in model.graph.gradients:
        matrix = (
            matrix
            + _pairs(
                before.shape,
                [t.input_gradients[slot] for t in targets],
                [s.output_gradient for s in sources],
                model,
            ).T
        )
    return matrix


def _pairs(shape: tuple[int, ...], sources: list[Layout], targets: list[Layout], model: CostModel) -> Floats:
    """Distinct layouts are few: cost those pairs and spread them."""
    distinct_sources, source_index = _distinct(sources)
    distinct_targets, target_index = _distinct(targets)
    seconds = _seconds(shape, tuple(distinct_sources), tuple(distinct_targets), model.network)
    return seconds[np.ix_(source_index, target_index)]


@lru_cache(maxsize=64)
def _seconds(
    shape: tuple[int, ...], sources: tuple[Layout, ...], targets: tuple[Layout, ...], network: Network
) -> Floats:
    """Equal tensors between equal choices come up again and again, forward and backward."""
    return transition_seconds(shape, sources, targets, network)


def _distinct(items: list[Layout]) -> tuple[list[Layout], list[int]]:
    positions: dict[Layout, int] = {}
    index = [positions.setdefault(item, len(positions)) for item in items]
    return list(positions), index
