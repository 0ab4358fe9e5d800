"""Bytes that all devices together send, counted exactly: what `slicewise run` must find at the process group."""

from functools import lru_cache

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import KEYS, Layer
from slicewise.partition.halo import halo, periods
from slicewise.partition.layout import (
    REPLICATE,
    LayerLayouts,
    Layout,
    Shard,
    Slicing,
    layouts,
    partial_axes,
    replace_axes,
    ring_axes,
    statistics_axes,
)
from slicewise.partition.parts import Ints, boxes, held_items, overlap
from slicewise.partition.steps import Op, Step, steps


def move_items(shape: tuple[int, ...], source: Layout, target: Layout, mesh: Mesh) -> int:
    """All steps from one layout to another."""
    return sum(step_items(shape, step, mesh) for step in steps(shape, source, target, mesh))


@lru_cache(maxsize=65536)
def step_items(shape: tuple[int, ...], step: Step, mesh: Mesh) -> int:
    if step.op is Op.LOCAL:
        return 0
    if step.op is Op.ALL_TO_ALL:
        summed = tuple(axis for axis in partial_axes(step.source) if isinstance(step.target[axis], Shard))
        return _received(shape, step.source, boxes(shape, step.target, mesh), mesh, summed)
    return ring_items(step.op, step.axes, held_items(shape, step.target, mesh), mesh)


def _received(
    shape: tuple[int, ...],
    layout: Layout,
    needed: tuple[Ints, Ints],
    mesh: Mesh,
    summed: tuple[int, ...] = (),
    around: tuple[int, ...] | None = None,
) -> int:
    """What all ranks need, once per summand along the `summed` axes, less what each holds itself."""
    (start, stop), (own_start, own_stop) = needed, boxes(shape, layout, mesh)
    own = np.ones(mesh.devices, dtype=np.int64)
    for dim, period in enumerate(around or (0,) * len(shape)):
        own = own * overlap((own_start[:, dim], own_stop[:, dim]), (start[:, dim], stop[:, dim]), period)
    return int(((stop - start).prod(axis=-1) * mesh.group_size(summed) - own).sum())


def halo_items(layer: Layer, slicing: Slicing, mesh: Mesh) -> int:
    """One exchange, forward; backward sends the same regions back."""
    exchange = halo(layer, slicing, mesh)
    if exchange is None:
        return 0
    layout = layouts(layer, slicing).inputs[0]
    needed = (exchange.start, exchange.stop)
    return _received(layer.input_shapes[0], layout, needed, mesh, around=periods(layer))


def passed_items(layer: Layer, slicing: Slicing, mesh: Mesh) -> int:
    """Keys and values once round: each rank hands on all parts but one."""
    axes = ring_axes(layer, slicing)
    if not axes:
        return 0
    placed = layouts(layer, slicing).inputs
    held = sum(held_items(layer.input_shapes[slot], placed[slot], mesh) for slot in KEYS)
    return (mesh.group_size(axes) - 1) * held


def statistics_items(layer: Layer, slicing: Slicing, mesh: Mesh) -> tuple[int, int]:
    """A norm's mean and deviation are gathered forward; backward sums two such vectors. Attention has one of each."""
    axes = statistics_axes(layer, slicing)
    if not axes:
        return 0, 0
    layout = replace_axes(layouts(layer, slicing).output, axes, REPLICATE)
    items = layer.statistics_values * held_items(layer.statistics_shape, layout, mesh)
    return (
        ring_items(Op.ALL_GATHER, axes, items * mesh.group_size(axes), mesh),
        ring_items(Op.ALL_REDUCE, axes, items, mesh),
    )


def sync_items(layer: Layer, placed: LayerLayouts, mesh: Mesh) -> int:
    """The all-reduce of the weights' gradients."""
    if not placed.sync_axes:
        return 0
    return sum(
        ring_items(Op.ALL_REDUCE, placed.sync_axes, held_items(weight.shape, layout, mesh), mesh)
        for weight, layout in zip(layer.weights, placed.weights, strict=True)
        if weight.updated
    )


def ring_items(op: Op, axes: tuple[int, ...], items_of_all_ranks: int, mesh: Mesh) -> int:
    """What all groups together send: each rank (p-1)/p of its message, twice for an all-reduce."""
    ranks = mesh.group_size(axes)
    rounds = 2 if op is Op.ALL_REDUCE else 1
    return rounds * (ranks - 1) * items_of_all_ranks // ranks
