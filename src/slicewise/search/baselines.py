"""The strategies that one would choose without a search, as plans like any other."""

from collections.abc import Callable, Mapping
from operator import eq

from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.layer import Kind, Layer
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, candidate_slicings, legal_slicings, refusal, sliceable_dims

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
    """One cut of space for every layer that allows it, the best such cut.

    A layer too small for it gets the nearest one it allows; what has no space goes by sample, where there are enough.
    """
    mesh = model.cluster.mesh
    samples: Slicing = (Dim.N,) * len(mesh.axes)
    dims = frozenset(dim for layer in model.graph for dim in sliceable_dims(layer) & set(SPACE))
    cuts = [cut for cut in candidate_slicings(dims, mesh, _CUBES) if None not in cut]
    smaller = {layer.name: _spatial_slicings(layer, model) for layer in model.graph}
    plans = []
    for cut in cuts:
        nearest = {
            name: sorted(choices, key=lambda choice: -sum(map(eq, choice, cut))) for name, choices in smaller.items()
        }
        plans.append(_fill(model, lambda layer, cut=cut, nearest=nearest: [cut, *nearest[layer.name], samples]))  # type: ignore[misc]
    used = [plan for plan in plans if any(dim in SPACE for slicing in plan.values() for dim in slicing)]
    if not used:
        raise InfeasibleError("no layer has space to slice over these devices")
    return min(used, key=lambda plan: sum(cost.total_s for cost in model.plan_costs(plan).values()))


def _spatial_slicings(layer: Layer, model: CostModel) -> list[Slicing]:
    """Slicings by space alone, those over most devices first."""
    legal = legal_slicings(layer, model.cluster.mesh, _CUBES)
    return sorted(
        (slicing for slicing in legal if set(slicing) <= {*SPACE, None} and set(slicing) != {None}),
        key=lambda slicing: slicing.count(None),
    )


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
