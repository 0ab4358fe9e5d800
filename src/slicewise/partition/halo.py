"""What a spatial slice must borrow from its neighbours.

A rank computes its part of the output, and reads the window of input that part needs. It owns the same axes' part of
the input; the rest is the halo. Corners come along by themselves: the needed region is a box and the exchange a route.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.window import Window
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import Ints, boxes, intervals


@dataclass(frozen=True, slots=True)
class Halo:
    """The axes along which borders are exchanged, and per rank, as arrays [rank, tensor dim], the box needed."""

    axes: tuple[int, ...]
    start: Ints
    stop: Ints


@lru_cache(maxsize=4096)  # arrays as long as the mesh has devices
def needed(
    window: Window, input_extent: int, output_extent: int, axes: tuple[int, ...], mesh: Mesh
) -> tuple[Ints, Ints]:
    """The input interval that each rank's output part reads, clipped at the borders; a roll's reach over them."""
    start, stop = window.needs(*intervals(output_extent, axes, mesh))
    if window.wraps:
        return start, stop
    return np.clip(start, 0, input_extent), np.clip(stop, 0, input_extent)


def needed_boxes(layer: Layer, slicing: Slicing, mesh: Mesh, windowed: Iterable[Dim]) -> tuple[Ints, Ints]:
    """Per rank, the box of the input that its part of the output reads along the `windowed` dims, without padding."""
    dims, shape = layer.input_dims[0], layer.input_shapes[0]
    start, stop = boxes(shape, layouts(layer, slicing).inputs[0], mesh)
    for dim in windowed:
        axes = tuple(axis for axis, sliced in enumerate(slicing) if sliced is dim)
        position, output_extent = dims.index(dim), layer.shape[layer.dims.index(dim)]
        start[:, position], stop[:, position] = needed(layer.windows[dim], shape[position], output_extent, axes, mesh)
    return start, stop


def periods(layer: Layer) -> tuple[int, ...] | None:
    """Per dim of the first input, its extent if it goes round, else 0; None where no dim does."""
    found = tuple(
        extent if any(letter == dim and window.wraps for dim, window in layer.windows.items()) else 0
        for letter, extent in zip(layer.input_dims[0], layer.input_shapes[0], strict=True)
    )
    return found if any(found) else None


def halo(layer: Layer, slicing: Slicing, mesh: Mesh) -> Halo | None:
    """The exchange that `layer` needs under `slicing`; None where every rank owns what it reads."""
    sliced = [dim for dim in layer.windows if dim in slicing]
    if not sliced:
        return None
    dims = layer.input_dims[0]
    own_start, own_stop = boxes(layer.input_shapes[0], layouts(layer, slicing).inputs[0], mesh)
    start, stop = needed_boxes(layer, slicing, mesh, sliced)
    foreign = np.any((start < own_start) | (stop > own_stop), axis=0)
    crossed = {Dim(dims[position]) for position in np.flatnonzero(foreign)}
    axes = tuple(axis for axis, dim in enumerate(slicing) if dim in crossed)
    return Halo(axes, start, stop) if axes else None
