"""What a plan makes each rank receive, and the collectives it takes: counted rank by rank, from boxes alone.

The planner sums over ranks and never lists them (cost/volume.py); the runtime builds routes. This is the third count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.cost.breakdown import Cost
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets, weight_layouts
from slicewise.partition.halo import halo, periods
from slicewise.partition.layout import (
    REPLICATE,
    Shard,
    Slicing,
    layouts,
    partial_axes,
    replace_axes,
    statistics_axes,
)
from slicewise.partition.parts import boxes
from slicewise.partition.steps import Op, Step, steps

ITEM_BYTES = 4
Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One collective, on all ranks at once."""

    op: str
    axes: tuple[int, ...]
    term: str
    layer: str
    rank_bytes: Floats  # per rank: what it needs of others


def expected(graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh) -> list[Expected]:
    """All collectives of one training step in float32, in no particular order."""
    found = []
    for layer in graph:
        found += [*_transfers(graph, layer, slicings, mesh), *_halos(graph, layer, slicings, mesh)]
        found += [*_statistics(graph, layer, slicings, mesh), *_rounds(graph, layer, slicings, mesh)]
    return found + list(_sync(graph, slicings, mesh))


def by_layer(collectives: list[Expected], ranks: int) -> dict[tuple[str, str], Floats]:
    """(layer, term) -> bytes per rank."""
    summed: dict[tuple[str, str], Floats] = {}
    for one in collectives:
        key = (one.layer, one.term)
        summed[key] = summed.get(key, np.zeros(ranks)) + one.rank_bytes
    return summed


def kinds(collectives: list[Expected]) -> Counter[tuple[str, str, str, tuple[int, ...]]]:
    return Counter((one.layer, one.term, one.op, one.axes) for one in collectives)


def planned(costs: Mapping[str, Cost]) -> dict[tuple[str, str], int]:
    """The planner's own figures, summed over all ranks, under the same keys."""
    figures = {
        (name, term): getattr(cost, f"{term}_bytes")
        for name, cost in costs.items()
        for term in ("transfer", "halo", "reduce")
    }
    figures["", "sync"] = sum(cost.sync_bytes for cost in costs.values())
    return {key: count for key, count in figures.items() if count}


def _transfers(graph: LayerGraph, layer: Layer, slicings: Mapping[str, Slicing], mesh: Mesh) -> Iterator[Expected]:
    after = layouts(layer, slicings[layer.name])
    for slot, source in enumerate(layer.inputs):
        shape, before = graph[source].shape, layouts(graph[source], slicings[source])
        path = [*steps(shape, before.output, after.inputs[slot], mesh)]
        if {source, layer.name} <= graph.gradients:
            path += steps(shape, after.input_gradients[slot], before.output_gradient, mesh)
        for step in path:
            if step.op is not Op.LOCAL:
                yield _expected(step.op, step.axes, "transfer", layer.name, _received(shape, step, mesh), mesh)


def _received(shape: tuple[int, ...], step: Step, mesh: Mesh) -> Ints:
    own, needed = boxes(shape, step.source, mesh), boxes(shape, step.target, mesh)
    if step.op is not Op.ALL_TO_ALL:
        return _volume(*needed)
    summands = prod(mesh.sizes[axis] for axis in partial_axes(step.source) if isinstance(step.target[axis], Shard))
    return _volume(*needed) * summands - _common(own, needed)


def _halos(graph: LayerGraph, layer: Layer, slicings: Mapping[str, Slicing], mesh: Mesh) -> Iterator[Expected]:
    exchange = halo(layer, slicings[layer.name], mesh) if layer.windows else None
    if exchange is None:
        return
    own = boxes(layer.input_shapes[0], layouts(layer, slicings[layer.name]).inputs[0], mesh)
    needed = (exchange.start, exchange.stop)
    borrowed = _volume(*needed) - _common(own, needed, periods(layer))
    returns = {layer.inputs[0], layer.name} <= graph.gradients
    for _ in range(1 + returns):
        yield _expected(Op.ALL_TO_ALL, exchange.axes, "halo", layer.name, borrowed, mesh)


def _statistics(graph: LayerGraph, layer: Layer, slicings: Mapping[str, Slicing], mesh: Mesh) -> Iterator[Expected]:
    axes = statistics_axes(layer, slicings[layer.name])
    if not axes:
        return
    layout = replace_axes(layouts(layer, slicings[layer.name]).output, axes, REPLICATE)
    values = 1 if layer.kind is Kind.ATTENTION else 2  # the logarithm of a sum, or mean and deviation
    items = values * _volume(*boxes(layer.statistics_shape, layout, mesh))
    yield _expected(Op.ALL_GATHER, axes, "reduce", layer.name, items * mesh.group_size(axes), mesh)
    if layer.name in graph.gradients:
        yield _expected(Op.ALL_REDUCE, axes, "reduce", layer.name, items, mesh)


def _rounds(graph: LayerGraph, layer: Layer, slicings: Mapping[str, Slicing], mesh: Mesh) -> Iterator[Expected]:
    """Keys and values forward, again in backward, and their gradients: received forward, handed on backward."""
    slicing = slicings[layer.name]
    axes = tuple(axis for axis, dim in enumerate(slicing) if dim is Dim.Q)
    if layer.kind is not Kind.ATTENTION or layer.input_dims[1][-2] != Dim.Q or not axes:
        return
    placed = layouts(layer, slicing).inputs
    keys, values = (_volume(*boxes(layer.input_shapes[slot], placed[slot], mesh)) for slot in (1, 2))
    groups = [mesh.group(rank, axes) for rank in range(mesh.devices)]

    def of_turn(turn: int) -> Ints:
        """What every rank computes with, so many turns from its own keys."""
        owners = [group[(group.index(rank) - turn) % len(group)] for rank, group in enumerate(groups)]
        return (keys + values)[owners]

    for turn in range(1, len(groups[0])):
        for items in (of_turn(turn), of_turn(turn - 1), of_turn(turn)):
            yield _expected(Op.ALL_TO_ALL, axes, "halo", layer.name, items, mesh)


def _sync(graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh) -> Iterator[Expected]:
    held = weight_layouts(graph, slicings)
    for bucket in buckets(graph, slicings, mesh):
        items = sum(
            (_volume(*boxes(held[name][0].shape, held[name][1], mesh)) for name in bucket.weights),
            np.zeros(mesh.devices, dtype=np.int64),
        )
        yield _expected(Op.ALL_REDUCE, bucket.axes, "sync", "", items, mesh)


def _expected(op: Op, axes: tuple[int, ...], term: str, layer: str, items: Ints, mesh: Mesh) -> Expected:
    """An all-to-all brings what it brings; of a ring's message a rank gets (p-1)/p, twice in an all-reduce."""
    ranks = mesh.group_size(axes)
    share = {Op.ALL_REDUCE: 2 * (ranks - 1) / ranks, Op.ALL_GATHER: (ranks - 1) / ranks}.get(op, 1.0)
    return Expected(op=op.value, axes=axes, term=term, layer=layer, rank_bytes=share * ITEM_BYTES * items)


def _volume(start: Ints, stop: Ints) -> Ints:
    volume: Ints = (stop - start).prod(axis=1)
    return volume


def _common(one: tuple[Ints, Ints], other: tuple[Ints, Ints], around: tuple[int, ...] | None = None) -> Ints:
    """Position by position: dims that go round have the same positions again, one extent further on."""
    dims = one[0].shape[1]
    common = np.ones(len(one[0]), dtype=np.int64)
    for dim, period in zip(range(dims), around or (0,) * dims, strict=True):
        here = np.zeros(len(common), dtype=np.int64)
        for turn in {-period, 0, period}:
            start, stop = (
                np.maximum(one[0][:, dim] + turn, other[0][:, dim]),
                np.minimum(one[1][:, dim] + turn, other[1][:, dim]),
            )
            here += np.clip(stop - start, 0, None)
        common *= here
    return common
