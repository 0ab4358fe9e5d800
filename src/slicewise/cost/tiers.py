"""Which links the bytes of a plan cross: a collective counts for the widest tier that its group spans."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.model import CostModel
from slicewise.cost.own import STATISTICS_BYTES
from slicewise.cost.pipeline import LOSS_BYTES, PipelineModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.cost.volume import halo_items, passed_items, statistics_items, step_items, sync_items
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.halo import halo
from slicewise.partition.layout import Slicing, layouts, ring_axes, statistics_axes, sync_axes
from slicewise.partition.steps import steps


def bytes_by_tier(model: CostModel, slicings: Mapping[str, Slicing]) -> dict[str, int]:
    """`{"inter": 0, "intra": 8388608}`: what all devices send in one step; the sum is `bytes_moved`.

    With recompute, what is computed again is sent again too.
    """
    names = tier_names(model.cluster)
    totals = dict.fromkeys(names, 0)
    for layer in model.graph:
        for axes, sent in _sent(model, layer, slicings):
            if sent:
                totals[names[min(axes)]] += sent  # axes come from the widest tier inwards
    return totals


def pipeline_bytes_by_tier(pipeline: PipelineModel, positions: Sequence[int]) -> dict[str, int]:
    """The same of a pipeline: outputs and their gradients over every cut, and the loss to all."""
    cluster = pipeline.model.cluster
    names = tier_names(cluster)
    totals = dict.fromkeys(names, 0)
    for rank, stage in enumerate(pipeline.stage_costs(positions)[:-1]):
        sent = pipeline.micro_batches * (stage.sent_bytes + stage.returned_bytes)
        totals[tier_of_ranks(cluster.mesh, names, (rank, rank + 1))] += sent
    if names:
        totals[names[0]] += LOSS_BYTES * (cluster.devices - 1)
    return totals


def sent_as_predicted(counted: Mapping[str, Any], predicted: Mapping[str, Any]) -> bool:
    """Whether a run sent the bytes that were predicted, in all and over each tier; where nothing was, it did."""
    return all(predicted.get(name) in (None, counted[name]) for name in ("bytes_moved", "bytes_by_tier"))


def tier_names(cluster: Cluster) -> tuple[str, ...]:
    """Of every mesh axis."""
    return tuple(cluster.tiers[axis.tier].name for axis in cluster.mesh.axes)


def tier_of_ranks(mesh: Mesh, names: Sequence[str], ranks: Sequence[int]) -> str:
    """The widest tier between any two of `ranks`, of those that `names` gives to the mesh's axes."""
    places = mesh.coordinates[list(ranks)]
    return next(name for name, along in zip(names, places.T, strict=True) if len(set(along)) > 1)


def _sent(model: CostModel, layer: Layer, slicings: Mapping[str, Slicing]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every collective that a layer needs: its axes, and its bytes."""
    mesh, slicing = model.cluster.mesh, slicings[layer.name]
    trains = layer.name in model.graph.gradients
    times = 2 if trains and _runs_again(model, layer) else 1
    placed = layouts(layer, slicing)
    for slot, source in enumerate(layer.inputs):
        producer = model.graph[source]
        given = layouts(producer, slicings[source])
        moves = [(given.output, placed.inputs[slot], times)]
        if model.returns_gradient(layer, slot):
            moves.append((placed.input_gradients[slot], given.output_gradient, 1))
        for before, after, often in moves:
            for step in steps(producer.shape, before, after, mesh):
                yield step.axes, often * step_items(producer.shape, step, mesh) * model.item_bytes(producer)
    border = halo(layer, slicing, mesh) if layer.windows else None
    if border is not None:
        exchanges = times + model.returns_gradient(layer, 0)
        yield border.axes, exchanges * halo_items(layer, slicing, mesh) * model.item_bytes(layer)
    rounds = model.key_rounds(layer) + times - 1 if layer.passes_keys else 0
    yield ring_axes(layer, slicing), rounds * passed_items(layer, slicing, mesh) * model.item_bytes(layer)
    forward, backward = statistics_items(layer, slicing, mesh)
    yield statistics_axes(layer, slicing), (times * forward + trains * backward) * STATISTICS_BYTES
    yield sync_axes(layer, slicing), sync_items(layer, placed, mesh) * WEIGHT_BYTES


def _runs_again(model: CostModel, layer: Layer) -> bool:
    """With recompute, forward runs again up to the last layer that keeps anything for backward."""
    if not model.training.recompute:
        return False
    keeping = [
        position
        for position, other in enumerate(model.graph)
        if other.kind.has(Trait.KEEPS_INPUT) or (other.kind is Kind.ELEMENTWISE and len(other.inputs) == 1)
    ]
    return model.graph.index[layer.name] <= max(keeping, default=-1)
