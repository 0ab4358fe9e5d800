"""What the slowest rank of a halo exchange receives, dim by dim."""

from functools import lru_cache

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.cost.network import Network
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.window import Window
from slicewise.partition.choices import DIMS, Choices, Floats, Ints, axes_in, group_sizes
from slicewise.partition.halo import needed
from slicewise.partition.parts import intervals, overlap


def halo_seconds(layer: Layer, choices: Choices, network: Network, item_bytes: int) -> Floats:
    """One exchange, forward, for every choice.

    Parts along different dims combine freely, so some rank has the worst part along each dim at once.
    """
    tiers = len(network.cluster.tiers)
    rows = len(choices)
    held = np.ones((tiers + 1, rows))  # the input that a rank reads; what the ranks sharing tiers 0..t hold of it
    crossed = np.zeros(rows, dtype=np.int64)
    for letter, extent in zip(layer.input_dims[0], layer.input_shapes[0], strict=True):
        dim = Dim(letter) if letter in DIMS else None
        masks: Ints = choices.axes_of([dim]) if dim else np.zeros(rows, dtype=np.int64)
        if dim is not None and dim in layer.windows:
            output_extent = layer.shape[layer.dims.index(letter)]
            occurring, index = np.unique(masks, return_inverse=True)
            tables = [
                worst_part(layer.windows[dim], extent, output_extent, axes_in(int(mask)), network) for mask in occurring
            ]
            held *= np.array([lengths for lengths, _ in tables], dtype=float)[index].T
            crossed |= np.where(np.array([foreign for _, foreign in tables])[index], masks, 0)
        else:
            held *= -(-extent // group_sizes(masks, choices.mesh))
    rates = np.array([network.all_to_all_s_per_byte(tier) for tier in range(tiers)])
    seconds: Floats = rates @ (held[:-1] - held[1:]) * item_bytes
    return np.where(crossed > 0, network.all_to_all_latencies[crossed] + seconds, 0.0)


def border_axes(layer: Layer, choices: Choices, network: Network) -> Ints:
    """Per choice, the axes along which some rank lacks what it reads: borders, or keys that are passed round."""
    if layer.passes_keys:
        return choices.axes_of([Dim.Q])
    crossed = np.zeros(len(choices), dtype=np.int64)
    for dim, window in layer.windows.items():
        extent = layer.input_shapes[0][layer.input_dims[0].index(dim)]
        output_extent = layer.shape[layer.dims.index(dim)]
        for mask in np.unique(masks := choices.axes_of([dim])):
            _, foreign = worst_part(window, extent, output_extent, axes_in(int(mask)), network)
            crossed |= np.where(foreign & (masks == mask), masks, 0)
    return crossed


@lru_cache(maxsize=65536)
def worst_part(
    window: Window, extent: int, output_extent: int, axes: tuple[int, ...], network: Network
) -> tuple[tuple[int, ...], bool]:
    """Lengths along one dim: what a part reads, then what tiers 0..t hold of that; whether any part lacks something.

    At the part that waits longest, and of those at one that reads most: along other dims it may wait for all of it.
    """
    tiers = len(network.cluster.tiers)
    if not axes:
        return (extent,) * (tiers + 1), False
    mesh = network.cluster.mesh
    line = Mesh(tuple(mesh.axes[axis] for axis in axes))
    start, stop = needed(window, extent, output_extent, tuple(range(len(axes))), line)
    lengths = [stop - start]
    for tier in range(tiers):
        inside = tuple(position for position, axis in enumerate(line.axes) if axis.tier <= tier)
        own_start, own_stop = intervals(extent, inside, line)
        lengths.append(overlap((own_start, own_stop), (start, stop), extent if window.wraps else 0))
    seconds = np.zeros(line.devices)
    for tier in range(tiers):
        seconds += network.all_to_all_s_per_byte(tier) * (lengths[tier] - lengths[tier + 1])
    worst = int(np.lexsort((lengths[0], seconds))[-1])
    return tuple(int(length[worst]) for length in lengths), bool(np.any(lengths[0] > lengths[-1]))
