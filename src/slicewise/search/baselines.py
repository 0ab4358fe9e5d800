"""The strategies that one would choose without a search, as plans like any other."""

from collections.abc import Callable, Mapping

from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.layer import Kind, Layer
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_slicings, refusal

Baseline = Callable[[CostModel], dict[str, Slicing]]

_CUBES = Space(dims_per_layer=3, dims_per_tier=3)  # a volume may be cut along all three of its dims


def data(model: CostModel) -> dict[str, Slicing]:
    """Every layer by sample."""
    mesh = model.cluster.mesh
    samples: Slicing = (Dim.N,) * len(mesh.axes)
    if model.graph.batch < mesh.devices:
        raise InfeasibleError(f"{model.graph.batch} samples do not reach {mesh.devices} devices")
    return _fill(model, lambda layer: [samples])


def filter_(model: CostModel) -> dict[str, Slicing]:
    """Every layer by output channel, over as many of the innermost axes as it allows: the paper's model parallelism."""
    axes = len(model.cluster.mesh.axes)
    packed: list[Slicing] = [(None,) * left + (Dim.F,) * (axes - left) for left in range(axes)]
    return _fill(model, lambda layer: packed)


def spatial(model: CostModel) -> dict[str, Slicing]:
    """Every layer that has space by space, cut the cheapest way; what has none by sample, where there are enough."""
    mesh = model.cluster.mesh
    samples: Slicing = (Dim.N,) * len(mesh.axes)

    def wishes(layer: Layer) -> list[Slicing]:
        cuts = [
            slicing
            for slicing in legal_slicings(layer, mesh, _CUBES)
            if set(slicing) <= {*SPACE, None} and set(slicing) != {None}
        ]
        cuts.sort(key=lambda slicing: (slicing.count(None), model.layer_cost(layer, slicing).total_s))
        return [*cuts, samples]

    slicings = _fill(model, wishes)
    if not any(dim in SPACE for slicing in slicings.values() for dim in slicing):
        raise InfeasibleError("no layer has space to slice over these devices")
    return slicings


def owt(model: CostModel) -> dict[str, Slicing]:
    """One weird trick: by sample up to the first linear layer, by output channel from there on."""
    axes = len(model.cluster.mesh.axes)
    linear = [layer.name for layer in model.graph if layer.kind is Kind.LINEAR]
    if not linear:
        raise InfeasibleError("the network has no linear layer")
    if model.graph.batch < model.cluster.devices:
        raise InfeasibleError(f"{model.graph.batch} samples do not reach {model.cluster.devices} devices")
    first = model.graph.index[linear[0]]
    samples: Slicing = (Dim.N,) * axes
    packed: list[Slicing] = [(None,) * left + (Dim.F,) * (axes - left) for left in range(axes)]
    return _fill(model, lambda layer: packed if model.graph.index[layer.name] >= first else [samples])


def _fill(model: CostModel, wishes: Callable[[Layer], list[Slicing]]) -> dict[str, Slicing]:
    """Each layer's first legal wish, or nothing sliced; input and output as the contract has them."""
    mesh = model.cluster.mesh
    slicings: dict[str, Slicing] = {}
    for layer in model.graph:
        wanted = wishes(layer)
        if layer.kind in (Kind.INPUT, Kind.OUTPUT):
            allowed = legal_slicings(layer, mesh, _CUBES)
            before = slicings.get(layer.inputs[0]) if layer.inputs else None
            wanted = [w for w in (before, *wanted) if w in allowed] or allowed[:1]
        nothing: Slicing = (None,) * len(mesh.axes)
        slicings[layer.name] = next((w for w in wanted if w and refusal(layer, w, mesh) is None), nothing)
    return slicings


BASELINES: Mapping[str, Baseline] = {"data": data, "filter": filter_, "spatial": spatial, "owt": owt}
