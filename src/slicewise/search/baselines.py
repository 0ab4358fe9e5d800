"""The strategies that one would choose without a search, as plans like any other."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.layer import Kind, Layer
from slicewise.partition.choices import Choices, group_sizes
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, candidate_choices, legal_choices, legal_slicings, refusal, sliceable_dims

Baseline = Callable[[CostModel], dict[str, Slicing]]

_CUBES = Space(dims_per_layer=3, dims_per_tier=3)  # a volume may be cut along all three of its dims


def data(model: CostModel) -> dict[str, Slicing]:
    """Every layer by sample."""
    samples = _samples(model)
    return _fill(model, lambda layer: [samples])


def filter_(model: CostModel) -> dict[str, Slicing]:
    """Every layer by output channel, over as many of the innermost axes as it allows: the paper's model parallelism."""
    packed = _packed_filters(model)
    return _fill(model, lambda layer: packed)


def spatial(model: CostModel) -> dict[str, Slicing]:
    """One cut of space for every layer that allows it: the cut that is best for the layers by themselves.

    A layer too small for it gets the nearest one it allows; what has no space goes by sample, where there are enough.
    """
    mesh = model.cluster.mesh
    dims = frozenset(dim for layer in model.graph for dim in sliceable_dims(layer) & set(SPACE))
    candidates = candidate_choices(dims, mesh, _CUBES)
    cuts = candidates.rows(np.flatnonzero(candidates.axes_of(SPACE) == (1 << len(mesh.axes)) - 1))
    spatially: dict[int, tuple[Choices, NDArray[np.int64], NDArray[np.float64]]] = {}
    total_s = np.zeros(len(cuts))
    for layer, key in zip(model.graph, model.alike, strict=True):
        if key not in spatially:
            choices = _spatial_choices(layer, mesh)
            alike = (choices.labels[:, None, :] == cuts.labels).sum(axis=2)
            nearest = alike.argmax(axis=0) if len(choices) else np.zeros(len(cuts), dtype=np.int64)
            spatially[key] = choices, nearest, model.layer_seconds(layer, choices).total_s
        choices, nearest, seconds = spatially[key]
        total_s += seconds[nearest] if len(choices) else 0.0
    if not len(cuts) or not any(len(choices) for choices, *_ in spatially.values()):
        raise InfeasibleError("no layer has space to slice over these devices")
    best = int(total_s.argmin())
    samples: Slicing = (Dim.N,) * len(mesh.axes)

    def wishes(layer: Layer) -> list[Slicing]:
        choices, nearest, _ = spatially[model.alike[model.graph.index[layer.name]]]
        return [cuts[best], *([choices[nearest[best]]] if len(choices) else []), samples]

    return _fill(model, wishes)


def _spatial_choices(layer: Layer, mesh: Mesh) -> Choices:
    """Slicings by space alone, those over most devices first."""
    legal = legal_choices(layer, mesh, _CUBES)
    space = legal.axes_of(SPACE)
    alone = np.flatnonzero((space > 0) & (legal.axes_of(Dim) == space))
    return legal.rows(alone[np.argsort(-group_sizes(space[alone], mesh), kind="stable")])


def owt(model: CostModel) -> dict[str, Slicing]:
    """One weird trick: by sample up to the first linear layer, by output channel from there on."""
    linear = [layer.name for layer in model.graph if layer.kind is Kind.LINEAR]
    if not linear:
        raise InfeasibleError("the network has no linear layer")
    first = model.graph.index[linear[0]]
    samples, packed = _samples(model), _packed_filters(model)
    return _fill(model, lambda layer: packed if model.graph.index[layer.name] >= first else [samples])


def _samples(model: CostModel) -> Slicing:
    """Every axis by sample, if there are enough of them."""
    if model.graph.batch < model.cluster.devices:
        raise InfeasibleError(f"{model.graph.batch} samples do not reach {model.cluster.devices} devices")
    return (Dim.N,) * len(model.cluster.mesh.axes)


def _packed_filters(model: CostModel) -> list[Slicing]:
    """Filters over all axes, then over fewer and fewer of the innermost."""
    axes = len(model.cluster.mesh.axes)
    return [(None,) * left + (Dim.F,) * (axes - left) for left in range(axes)]


def _fill(model: CostModel, wishes: Callable[[Layer], list[Slicing]]) -> dict[str, Slicing]:
    """Each layer's first legal wish, or nothing sliced; input and output as the contract has them.

    Layers that share weights are sliced alike: by the first wish of the first that is legal for all.
    """
    mesh = model.cluster.mesh
    ties = {position: tie for tie in model.graph.ties for position in tie}
    slicings: dict[str, Slicing] = {}
    for position, layer in enumerate(model.graph):
        together = [model.graph.layers[other] for other in ties.get(position, (position,))]
        wanted = wishes(together[0])
        if layer.kind in (Kind.INPUT, Kind.OUTPUT):
            allowed = legal_slicings(layer, mesh, _CUBES)
            before = slicings.get(layer.inputs[0]) if layer.inputs else None
            wanted = [w for w in (before, *wanted) if w in allowed] or allowed[:1]
        nothing: Slicing = (None,) * len(mesh.axes)
        legal = (w for w in wanted if w and all(refusal(other, w, mesh) is None for other in together))
        slicings[layer.name] = next(legal, nothing)
    return slicings


BASELINES: Mapping[str, Baseline] = {"data": data, "filter": filter_, "spatial": spatial, "owt": owt}
