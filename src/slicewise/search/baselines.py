"""The strategies that one would choose without a search, as plans like any other."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, group_sizes, mask_of
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, candidate_choices, legal_choices, legal_slicings, refusal, sliceable_dims
from slicewise.partition.tokens import has_tokens, token_dim
from slicewise.strategy import STRATEGIES

Baseline = Callable[[CostModel], dict[str, Slicing]]
Split = Callable[[CostModel, int], dict[str, Slicing]]  # by sample over so many of the outer axes

_CUBES = Space(dims_per_layer=4, dims_per_tier=4)  # a volume may be cut along all three of its dims, and by sample


def data(model: CostModel) -> dict[str, Slicing]:
    """Every layer by sample."""
    samples = _samples(model)
    return _fill(model, lambda layer: [samples])


def filter_(model: CostModel) -> dict[str, Slicing]:
    """Every layer by output channel, over as many of the innermost axes as it allows: the paper's model parallelism.

    Attention goes by head: its channels.
    """
    packed = _by_channel(model)
    return _fill(model, lambda layer: packed)


def channel(model: CostModel) -> dict[str, Slicing]:
    """Every layer by input channel, over as many of the innermost axes as it allows.

    What has no input channels to sum over goes by output channel, which is how the next layer wants its input.
    """
    if not any(Dim.C in sliceable_dims(layer) for layer in model.graph if layer.kind is not Kind.FORK):
        raise InfeasibleError("no layer has input channels to slice")
    channels, filters = _packed(model, Dim.C), _by_channel(model)
    return _fill(model, lambda layer: [*(channels if layer.kind is not Kind.FORK else []), *filters])


def data_filter(model: CostModel) -> dict[str, Slicing]:
    """By sample over the outer axes, by output channel over as many of the others as a layer allows."""
    return _best_split(model, _filtered)


def _filtered(model: CostModel, outer: int) -> dict[str, Slicing]:
    wishes = [*_by_channel(model, outer), _outer_samples(model, outer)]
    return _fill(model, lambda layer: wishes)


def data_spatial(model: CostModel) -> dict[str, Slicing]:
    """By sample over the outer axes, one cut of space over the others."""
    return _best_split(model, _spatially)


def hybrid(model: CostModel, strategy: str, groups: int) -> dict[str, Slicing]:
    """A hybrid with this many groups of devices, the outermost axes'."""
    mesh = model.cluster.mesh
    reached = [outer for outer in range(1, len(mesh.axes)) if mesh.group_size(tuple(range(outer))) == groups]
    if not reached or groups > model.graph.batch:
        raise InfeasibleError(f"{model.graph.batch} samples on axes of {mesh.sizes} do not make {groups} groups")
    return HYBRIDS[strategy](model, reached[0])


def spatial(model: CostModel) -> dict[str, Slicing]:
    """One cut of space for every layer that allows it: the cut that is best for the layers by themselves.

    A layer too small for it gets the nearest one it allows; what has no space goes by sample, where there are enough.
    """
    return _spatially(model, 0)


def _spatially(model: CostModel, outer: int) -> dict[str, Slicing]:
    """The best cut of space over all but the `outer` first axes, which go by sample."""
    mesh = model.cluster.mesh
    dims = frozenset(dim for layer in model.graph for dim in sliceable_dims(layer) & set(SPACE))
    candidates = candidate_choices(dims | {Dim.N}, mesh, _CUBES)
    inner = mask_of(range(outer, len(mesh.axes)))
    by_sample = candidates.axes_of([Dim.N]) == mask_of(range(outer))
    cuts = candidates.rows(np.flatnonzero(by_sample & (candidates.axes_of(SPACE) == inner)))
    spatially: dict[int, tuple[Choices, NDArray[np.int64], NDArray[np.float64]]] = {}
    total_s = np.zeros(len(cuts))
    for layer, key in zip(model.graph, model.alike, strict=True):
        if key not in spatially:
            choices = _spatial_choices(layer, mesh, outer)
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
        near = [choices[nearest[best]]] if len(choices) else []
        return [cuts[best], *near, samples, _outer_samples(model, outer)]

    return _fill(model, wishes)


def _spatial_choices(layer: Layer, mesh: Mesh, outer: int) -> Choices:
    """Slicings by space, and by sample along the `outer` first axes; those over most devices first.

    Queries are tokens, which are positions.
    """
    positions = (*SPACE, Dim.Q)
    legal = legal_choices(layer, mesh, _CUBES, among=frozenset((Dim.N, *positions)))
    space = legal.axes_of(positions)
    alone = np.flatnonzero((space > 0) & (legal.axes_of([Dim.N]) == mask_of(range(outer))))
    return legal.rows(alone[np.argsort(-group_sizes(space[alone], mesh), kind="stable")])


def _best_split(model: CostModel, split: Split) -> dict[str, Slicing]:
    """The cheapest of all ways to part the axes into outer ones, for samples, and inner ones."""
    mesh, batch = model.cluster.mesh, model.graph.batch
    if len(mesh.axes) < 2:
        raise InfeasibleError(f"{mesh.devices} devices are no p1 x p2 with both above 1")
    reached = [outer for outer in range(1, len(mesh.axes)) if mesh.group_size(tuple(range(outer))) <= batch]
    if not reached:
        raise InfeasibleError(f"{batch} samples do not reach {mesh.sizes[0]} groups of devices")
    plans = [split(model, outer) for outer in reached]
    return min(plans, key=lambda slicings: _additive_s(model, slicings))


def _additive_s(model: CostModel, slicings: Mapping[str, Slicing]) -> float:
    """What the search minimises, of one plan, without its bytes."""
    mesh = model.cluster.mesh
    chosen = {name: Choices.of([slicing], mesh) for name, slicing in slicings.items()}
    known: dict[object, float] = {}

    def priced(layer: Layer) -> float:
        seconds = float(model.layer_seconds(layer, chosen[layer.name]).total_s[0])
        for slot, source in enumerate(layer.inputs):
            seconds += float(model.edge_seconds(layer, slot, chosen[source], chosen[layer.name])[0, 0])
        return seconds

    total_s = 0.0
    for layer, alike in zip(model.graph, model.alike, strict=True):
        around = tuple((model.alike[model.graph.index[source]], slicings[source]) for source in layer.inputs)
        key = (alike, slicings[layer.name], around)
        if key not in known:
            known[key] = priced(layer)
        total_s += known[key]
    return total_s


def sequence(model: CostModel) -> dict[str, Slicing]:
    """Every layer by token, over as many of the innermost axes as it allows; attention by query, keys gathered.

    What has no tokens goes by sample, where there are enough.
    """
    return _by_token(model, 0)


def data_sequence(model: CostModel) -> dict[str, Slicing]:
    """By sample over the outer axes, by token over as many of the others as a layer allows."""
    return _best_split(model, _by_token)


def _by_token(model: CostModel, outer: int) -> dict[str, Slicing]:
    if not any(has_tokens(layer) for layer in model.graph):
        raise InfeasibleError(f"{model.graph.name} has no attention, so no tokens to share")
    samples: Slicing = (Dim.N,) * len(model.cluster.mesh.axes)
    others = [samples, _outer_samples(model, outer)]
    packed = {dim: _packed(model, dim, outer) for dim in (*SPACE, Dim.Q)}

    def wishes(layer: Layer) -> list[Slicing]:
        dim = token_dim(layer)
        return [*packed[dim], *others] if dim else others

    return _fill(model, wishes)


def owt(model: CostModel) -> dict[str, Slicing]:
    """One weird trick: by sample up to the first linear layer, by output channel from there on."""
    linear = [layer.name for layer in model.graph if layer.kind is Kind.LINEAR]
    if not linear:
        raise InfeasibleError("the network has no linear layer")
    first = model.graph.index[linear[0]]
    samples, packed = _samples(model), _by_channel(model)
    return _fill(model, lambda layer: packed if model.graph.index[layer.name] >= first else [samples])


def _samples(model: CostModel) -> Slicing:
    """Every axis by sample, if there are enough of them."""
    if model.graph.batch < model.cluster.devices:
        raise InfeasibleError(f"{model.graph.batch} samples do not reach {model.cluster.devices} devices")
    return (Dim.N,) * len(model.cluster.mesh.axes)


def _outer_samples(model: CostModel, outer: int) -> Slicing:
    return (Dim.N,) * outer + (None,) * (len(model.cluster.mesh.axes) - outer)


def _by_channel(model: CostModel, outer: int = 0) -> list[Slicing]:
    """Output channels, or heads where there are none."""
    return [*_packed(model, Dim.F, outer), *_packed(model, Dim.A, outer)]


def _packed(model: CostModel, dim: Dim, outer: int = 0) -> list[Slicing]:
    """`dim` over all axes but the `outer` first, which go by sample; then over fewer and fewer of the innermost."""
    inner = len(model.cluster.mesh.axes) - outer
    return [(Dim.N,) * outer + (None,) * left + (dim,) * (inner - left) for left in range(inner)]


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
        if layer.kind.has(Trait.EDGE):
            allowed = legal_slicings(layer, mesh, _CUBES)
            before = slicings.get(layer.inputs[0]) if layer.inputs else None
            wanted = [w for w in (before, *wanted) if w in allowed] or allowed[:1]
        nothing: Slicing = (None,) * len(mesh.axes)
        legal = (w for w in wanted if w and all(refusal(other, w, mesh) is None for other in together))
        slicings[layer.name] = next(legal, nothing)
    return slicings


BASELINES: Mapping[str, Baseline] = {
    "data": data,
    "filter": filter_,
    "spatial": spatial,
    "owt": owt,
    "channel": channel,
    "sequence": sequence,
    "data+filter": data_filter,
    "data+spatial": data_spatial,
    "data+sequence": data_sequence,
}
HYBRIDS: Mapping[str, Split] = {"data+filter": _filtered, "data+spatial": _spatially, "data+sequence": _by_token}
COMPARED = tuple(name for name in BASELINES if STRATEGIES[name].compared)


def baseline_slicings(model: CostModel) -> tuple[dict[str, dict[str, Slicing]], dict[str, str]]:
    """The baselines that stand beside every plan, as far as they exist for this network, and why the others do not."""
    found, reasons = {}, {}
    for name in COMPARED:
        try:
            found[name] = BASELINES[name](model)
        except InfeasibleError as error:
            reasons[name] = str(error)
    return found, reasons
