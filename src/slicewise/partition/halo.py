"""What a spatial slice must borrow from its neighbours.

A rank computes its part of the output, and reads the window of input that part needs. It owns the same axes' part of the
input; the rest is the halo. Corners come along by themselves: the needed region is a box and the exchange a route.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import Layer
from slicewise.graph.window import Window
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import Ints, boxes, intervals


@dataclass(frozen=True, slots=True)
class Halo:
    """Per rank, as arrays [rank, tensor dim]: the box owned, and the box needed, clipped at the tensor's borders."""

    axes: tuple[int, ...]
    own_start: Ints
    own_stop: Ints
    start: Ints
    stop: Ints


@lru_cache(maxsize=65536)
def needed(
    window: Window, input_extent: int, output_extent: int, axes: tuple[int, ...], mesh: Mesh
) -> tuple[Ints, Ints]:
    """The input interval that each rank's output part reads, clipped at the borders."""
    start, stop = window.needs(*intervals(output_extent, axes, mesh))
    return np.clip(start, 0, input_extent), np.clip(stop, 0, input_extent)


def halo(layer: Layer, slicing: Slicing, mesh: Mesh) -> Halo | None:
    """The exchange that `layer` needs under `slicing`; None where every rank owns what it reads."""
    sliced = [dim for dim in layer.windows if dim in slicing]
    if not sliced:
        return None
    dims, shape = layer.input_dims[0], layer.input_shapes[0]
    own_start, own_stop = boxes(shape, layouts(layer, slicing).inputs[0], mesh)
    start, stop = own_start.copy(), own_stop.copy()
    crossed: set[int] = set()
    for dim in sliced:
        axes = tuple(axis for axis, sliced_dim in enumerate(slicing) if sliced_dim == dim)
        position = dims.index(dim)
        output_extent = layer.shape[layer.dims.index(dim)]
        low, high = needed(layer.windows[dim], shape[position], output_extent, axes, mesh)
        start[:, position], stop[:, position] = low, high
        if np.any(low < own_start[:, position]) or np.any(high > own_stop[:, position]):
            crossed.update(axes)
    return Halo(tuple(sorted(crossed)), own_start, own_stop, start, stop) if crossed else None
