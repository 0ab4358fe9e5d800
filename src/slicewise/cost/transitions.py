"""The seconds of every layout change at once: CostModel.move for all pairs, in array operations.

The same rules as partition/steps.py, written for tables of thousands of pairs; a property test holds the two together.
Sets of mesh axes are bit masks here. Along one tensor dim only a few axis sets occur, so what two layouts have in
common is a product of small per-dim tables.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.compute import ITEM_BYTES
from slicewise.cost.network import Line, Network
from slicewise.partition.layout import Layout, partial_axes, sharding_axes
from slicewise.partition.parts import intervals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_PAIRS_AT_ONCE = 2_000_000  # pairs x ranks in one array


class _Layouts:
    """Layouts of one tensor as bit masks, one row each."""

    def __init__(self, shape: tuple[int, ...], layouts: Sequence[Layout]) -> None:
        self.partial = np.array([_mask(partial_axes(layout)) for layout in layouts], dtype=np.int64)
        self.by_dim = np.array(
            [[_mask(sharding_axes(layout, dim)) for dim in range(len(shape))] for layout in layouts],
            dtype=np.int64,
        )
        self.sharded = np.bitwise_or.reduce(self.by_dim, axis=1)

    def __len__(self) -> int:
        return len(self.partial)

    def rows(self, chosen: slice) -> "_Layouts":
        part = object.__new__(_Layouts)
        part.partial, part.by_dim, part.sharded = (
            self.partial[chosen],
            self.by_dim[chosen],
            self.sharded[chosen],
        )
        return part


def transition_seconds(
    shape: tuple[int, ...], sources: Sequence[Layout], targets: Sequence[Layout], network: Network
) -> Floats:
    """[source, target] -> seconds."""
    source, target = _Layouts(shape, sources), _Layouts(shape, targets)
    height = max(1, _PAIRS_AT_ONCE // (len(targets) * network.cluster.devices))
    blocks = [
        _block(shape, source.rows(slice(row, row + height)), target, network) for row in range(0, len(source), height)
    ]
    return np.concatenate(blocks)


def _block(shape: tuple[int, ...], source: _Layouts, target: _Layouts, network: Network) -> Floats:
    mesh, tiers = network.cluster.mesh, len(network.cluster.tiers)
    partial = source.partial[:, None]
    reduced = partial & ~target.sharded & ~target.partial
    summed = partial & target.sharded
    inner = [_mask([axis for axis, held in enumerate(mesh.axes) if held.tier > tier]) for tier in range(tiers)]
    # [source, target, rank]: what a rank needs that the ranks sharing its tiers 0..t hold; the last is its own
    inside = [_common(shape, source.by_dim & ~inner[tier], target.by_dim, network) for tier in range(tiers)]
    needed = _items(shape, target, network)
    largest = needed[:, 0]  # rank 0's part
    holds = (summed == 0) & (inside[-1] == needed).all(axis=2)

    message = np.where(holds, largest, _items(shape, source, network)[:, :1]) * ITEM_BYTES
    seconds = _lines(reduced, message, network.all_reduce)

    differs = source.by_dim[:, None] != target.by_dim
    crossed = np.bitwise_or.reduce(np.where(differs, source.by_dim[:, None], 0), axis=2) | summed
    gathers = ~holds & (summed == 0) & (differs.sum(axis=2) == 1) & _prefix(shape, source, target, differs, mesh.sizes)
    gathered = np.where(gathers, crossed & ~target.sharded, 0)
    seconds += _lines(gathered, np.broadcast_to(largest * ITEM_BYTES, gathered.shape), network.all_gather)

    moves = ~holds & ~gathers  # the rest: from here on one row per such pair
    outside = (np.broadcast_to(needed, inside[-1].shape)[moves]) * _group_sizes(summed[moves], mesh.sizes)[:, None]
    slowest = np.zeros(outside.shape)
    for tier in range(tiers):
        within = inside[tier][moves] * _group_sizes(summed[moves] & inner[tier], mesh.sizes)[:, None]
        slowest += (outside - within) * network.all_to_all_s_per_byte(tier)
        outside = within
    latency = _by_mask(crossed[moves], network.all_to_all_latency_s)
    seconds[moves] += latency + slowest.max(axis=1) * ITEM_BYTES
    return seconds


def _common(shape: tuple[int, ...], source: Ints, target: Ints, network: Network) -> Ints:
    """Items that the two layouts have in common, [source, target, rank]."""
    result = np.ones((1, 1, 1), dtype=np.int64)
    for dim, extent in enumerate(shape):
        source_masks, source_index = np.unique(source[:, dim], return_inverse=True)
        target_masks, target_index = np.unique(target[:, dim], return_inverse=True)
        if len(source_masks) == len(target_masks) == 1 and source_masks[0] == target_masks[0] == 0:
            result = result * extent
            continue
        one = _interval_table(extent, source_masks, network)
        other = _interval_table(extent, target_masks, network)
        table = np.minimum(one[1][:, None], other[1]) - np.maximum(one[0][:, None], other[0])
        result = result * np.maximum(table, 0)[source_index[:, None], target_index]
    return np.broadcast_to(result, (len(source), len(target), network.cluster.devices))


def _items(shape: tuple[int, ...], layouts: _Layouts, network: Network) -> Ints:
    """[layout, rank] -> items of the rank's part."""
    result = np.ones((len(layouts), network.cluster.devices), dtype=np.int64)
    for dim, extent in enumerate(shape):
        masks, index = np.unique(layouts.by_dim[:, dim], return_inverse=True)
        start, stop = _interval_table(extent, masks, network)
        result *= (stop - start)[index]
    return result


def _interval_table(extent: int, masks: Ints, network: Network) -> tuple[Ints, Ints]:
    held = [intervals(extent, _axes(int(mask)), network.cluster.mesh) for mask in masks]
    return np.stack([start for start, _ in held]), np.stack([stop for _, stop in held])


def _prefix(
    shape: tuple[int, ...], source: _Layouts, target: _Layouts, differs: Bools, sizes: tuple[int, ...]
) -> Bools:
    """Whether, along the dim that differs, the target keeps only the outermost of the source's axes, evenly."""
    result = np.zeros(differs.shape[:2], dtype=bool)
    for dim, extent in enumerate(shape):
        before, after = source.by_dim[:, None, dim], target.by_dim[:, dim]
        removed = before & ~after
        lowest_removed = removed & -removed
        outermost = ((after & ~before) == 0) & ((after & ~(lowest_removed - 1)) == 0)
        even = extent % _group_sizes(before, sizes) == 0
        result |= differs[:, :, dim] & outermost & even
    return result


def _lines(masks: Ints, message_bytes: Ints, line_of: Callable[[tuple[int, ...]], Line]) -> Floats:
    """latency + bytes * rate, the line looked up by axis set; nothing for the empty set."""
    latency = _by_mask(masks, lambda axes: line_of(axes).latency_s)
    rate = _by_mask(masks, lambda axes: line_of(axes).s_per_byte)
    seconds: Floats = latency + message_bytes * rate
    return seconds


def _by_mask(masks: Ints, function: Callable[[tuple[int, ...]], float]) -> Floats:
    """`function` of each axis set, computed once for each that occurs."""
    occurs = np.bincount(masks.ravel())
    values = np.array([function(_axes(mask)) if count else 0.0 for mask, count in enumerate(occurs)])
    return values[masks]


def _group_sizes(masks: Ints, sizes: tuple[int, ...]) -> Ints:
    result = np.ones(masks.shape, dtype=np.int64)
    for axis, size in enumerate(sizes):
        result *= np.where(masks >> axis & 1, size, 1)
    return result


def _mask(axes: Sequence[int]) -> int:
    return sum(1 << axis for axis in axes)


def _axes(mask: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)
