"""All ranks of a mesh in one process, on numpy arrays: the slow truth about layouts, routes and steps."""

from collections.abc import Sequence
from types import EllipsisType

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import PARTIAL, Layout, Shard, partial_axes
from slicewise.partition.parts import Box, as_boxes, boxes, relative, volume
from slicewise.partition.route import Transfer, route
from slicewise.partition.steps import Op, Step

Array = NDArray[np.int64]
Shape = tuple[int, ...]


def numbered(shape: Shape) -> Array:
    """Every item different, so that none can stand in for another."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)


def boxes_of(shape: Shape, layout: Layout, mesh: Mesh) -> list[Box]:
    return as_boxes(boxes(shape, layout, mesh))


def cut(whole: Array, box: Box) -> Array:
    index: tuple[slice | EllipsisType, ...] = (*(slice(start, stop) for start, stop in box), ...)
    return whole[index]


def scattered(whole: Array, layout: Layout, mesh: Mesh) -> list[Array]:
    """Each rank's part; along Partial axes, ranks hold different summands of it."""
    axes = partial_axes(layout)
    summands: dict[tuple[int, ...], Array] = {}
    places = [tuple(int(mesh.coordinates[rank, axis]) for axis in axes) for rank in range(mesh.devices)]
    for number, place in enumerate(dict.fromkeys(places)):
        summands[place] = (number + 2) * whole**2
    first = places[0]
    summands[first] = whole - sum(summand for place, summand in summands.items() if place != first)
    held = boxes_of(whole.shape, layout, mesh)
    return [cut(summands[place], box) for place, box in zip(places, held, strict=True)]


def deliver(
    parts: Sequence[Array], own: Sequence[Box], needed: Sequence[Box], terms: Sequence[int] | None = None
) -> tuple[list[Array], list[Transfer]]:
    """What every rank has after the route's transfers, added up where they meet; what it lacks stays 0."""
    transfers = route(own, needed, terms)
    results = [np.zeros([stop - start for start, stop in box], dtype=np.int64) for box in needed]
    for transfer in transfers:
        sent = parts[transfer.source][relative(transfer.box, own[transfer.source])]
        results[transfer.target][relative(transfer.box, needed[transfer.target])] += sent
    return results, transfers


def groups(mesh: Mesh, axes: tuple[int, ...]) -> list[list[int]]:
    return [group for rank in range(mesh.devices) if (group := mesh.group(rank, axes))[0] == rank]


def terms_of(group: Sequence[int], summed: Sequence[int], mesh: Mesh) -> list[int]:
    """Which summand each member of a group holds."""
    numbers: dict[tuple[int, ...], int] = {}
    places = [tuple(int(mesh.coordinates[rank, axis]) for axis in summed) for rank in group]
    return [numbers.setdefault(place, len(numbers)) for place in places]


def summed_axes(step: Step) -> list[int]:
    return [axis for axis in partial_axes(step.source) if isinstance(step.target[axis], Shard)]


def routes_of(shape: Shape, step: Step, mesh: Mesh) -> list[Transfer]:
    """Every transfer of an all-to-all, group by group, between ranks of the whole mesh."""
    own, needed = (boxes_of(shape, layout, mesh) for layout in (step.source, step.target))
    found = []
    for group in groups(mesh, step.axes):
        terms = terms_of(group, summed_axes(step), mesh)
        for transfer in route([own[rank] for rank in group], [needed[rank] for rank in group], terms):
            found.append(Transfer(group[transfer.source], group[transfer.target], transfer.box))
    return found


def crossed_tier(transfer: Transfer, mesh: Mesh) -> int:
    """The outermost tier on which the two ranks sit apart."""
    differs = mesh.coordinates[transfer.source] != mesh.coordinates[transfer.target]
    return min(axis.tier for axis, apart in zip(mesh.axes, differs, strict=True) if apart)


def received_s(transfers: Sequence[Transfer], mesh: Mesh, s_per_item: Sequence[float]) -> list[float]:
    """What each rank waits for, with a time per item for each tier."""
    waits = [0.0] * mesh.devices
    for transfer in transfers:
        if transfer.source != transfer.target:
            waits[transfer.target] += volume(transfer.box) * s_per_item[crossed_tier(transfer, mesh)]
    return waits


def executed(parts: list[Array], shape: Shape, step: Step, mesh: Mesh) -> list[Array]:
    """The step on every rank, as collectives would do it; ranks only see members of their own group."""
    own, needed = (boxes_of(shape, layout, mesh) for layout in (step.source, step.target))
    results: list[Array] = list(parts)
    if step.op is Op.LOCAL:
        masked = [axis for axis in partial_axes(step.target) if step.source[axis] is not PARTIAL]
        for rank, part in enumerate(parts):
            kept = part[relative(needed[rank], own[rank])]
            results[rank] = kept * (not mesh.coordinates[rank, masked].any())
        return results
    for group in groups(mesh, step.axes):
        members = [parts[rank] for rank in group]
        if step.op is Op.ALL_REDUCE:
            outcome = [np.sum(members, axis=0)] * len(group)
        elif step.op is Op.ALL_GATHER:
            placement = step.source[step.axes[0]]
            assert isinstance(placement, Shard)
            outcome = [np.concatenate(members, axis=placement.dim)] * len(group)
        else:
            terms = terms_of(group, summed_axes(step), mesh)
            outcome, _ = deliver(members, [own[rank] for rank in group], [needed[rank] for rank in group], terms)
        for rank, result in zip(group, outcome, strict=True):
            results[rank] = result
    return results
