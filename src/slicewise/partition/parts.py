"""The box of a tensor that each device holds under a layout: DTensor's nested chunking.

5 rows over two axes of size 2: chunk(5, 2) = 3 + 2, then chunk(3, 2) = 2 + 1 and chunk(2, 2) = 1 + 1.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import Layout, Shard, sharding_axes

Ints = NDArray[np.int64]
Box = tuple[tuple[int, int], ...]  # [start, stop) per tensor dim


@lru_cache(maxsize=4096)  # arrays as long as the mesh has devices
def intervals(extent: int, axes: tuple[int, ...], mesh: Mesh) -> tuple[Ints, Ints]:
    """Start and stop per rank of a dim of `extent` chunked by `axes` in order."""
    start = np.zeros(mesh.devices, dtype=np.int64)
    stop = np.full(mesh.devices, extent, dtype=np.int64)
    for axis in axes:
        chunk = -((start - stop) // mesh.sizes[axis])
        start = np.minimum(start + mesh.coordinates[:, axis] * chunk, stop)
        stop = np.minimum(start + chunk, stop)
    start.flags.writeable = stop.flags.writeable = False
    return start, stop


def boxes(shape: tuple[int, ...], layout: Layout, mesh: Mesh, ranks: Sequence[int] | None = None) -> tuple[Ints, Ints]:
    """Start and stop as arrays [rank, tensor dim]; of all ranks, or of some in their order."""
    chosen = slice(None) if ranks is None else list(ranks)
    start = np.empty((mesh.devices if ranks is None else len(ranks), len(shape)), dtype=np.int64)
    stop = np.empty_like(start)
    for dim, extent in enumerate(shape):
        starts, stops = intervals(extent, sharding_axes(layout, dim), mesh)
        start[:, dim], stop[:, dim] = starts[chosen], stops[chosen]
    return start, stop


def box(shape: tuple[int, ...], layout: Layout, mesh: Mesh, rank: int) -> Box:
    """The part of one rank."""
    return as_boxes(boxes(shape, layout, mesh, (rank,)))[0]


def largest(shape: tuple[int, ...], layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """The largest part: rank 0's, since chunks only get smaller."""
    extents = list(shape)
    for size, placement in zip(mesh.sizes, layout, strict=True):
        if isinstance(placement, Shard):
            extents[placement.dim] = -(-extents[placement.dim] // size)
    return tuple(extents)


def held_items(shape: tuple[int, ...], layout: Layout, mesh: Mesh) -> int:
    """Items of all ranks together: the parts tile the tensor, once per position on the axes that do not shard it."""
    copies = prod(size for size, placement in zip(mesh.sizes, layout, strict=True) if not isinstance(placement, Shard))
    return prod(shape) * copies


def as_boxes(bounds: tuple[Ints, Ints]) -> list[Box]:
    """A box per row; all at once, for there may be a thousand."""
    start, stop = (bound.tolist() for bound in bounds)
    return [tuple(zip(a, b, strict=True)) for a, b in zip(start, stop, strict=True)]


def intersections(one: Box, other: Box, periods: Sequence[int] | None = None) -> Iterator[Box]:
    """The common boxes, in the coordinates of `other`; along a dim with a period, positions that far apart are one."""
    turns = [(-period, 0, period) if period else (0,) for period in periods or (0,) * len(one)]
    for offsets in product(*turns):
        moved = tuple((a + offset, b + offset) for (a, b), offset in zip(one, offsets, strict=True))
        common = intersect(moved, other)
        if common is not None:
            yield common


def intersect(one: Box, other: Box) -> Box | None:
    """The common box, or None where there is none."""
    common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return None if any(a >= b for a, b in common) else common


def volume(one: Box) -> int:
    size = 1
    for start, stop in one:
        size *= max(stop - start, 0)
    return size


def relative(one: Box, origin: Box, periods: Sequence[int] | None = None) -> tuple[slice, ...]:
    """`one` as slices into a tensor that holds `origin`."""
    starts = (
        (a - c) % period if period else a - c
        for (a, _), (c, _), period in zip(one, origin, periods or (0,) * len(one), strict=True)
    )
    return tuple(slice(start, start + b - a) for start, (a, b) in zip(starts, one, strict=True))


def overlap(one: tuple[Ints, Ints], other: tuple[Ints, Ints], period: int = 0) -> Ints:
    """What intervals have in common, one by one; with a period, positions that far apart are one."""
    found = np.zeros(np.broadcast_shapes(one[0].shape, other[0].shape), dtype=np.int64)
    for offset in (-period, 0, period) if period else (0,):
        found += np.clip(np.minimum(one[1] + offset, other[1]) - np.maximum(one[0] + offset, other[0]), 0, None)
    return found
