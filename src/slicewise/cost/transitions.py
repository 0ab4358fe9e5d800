"""The seconds of every layout change at once: all pairs of two lists of layouts, in array operations.

The steps are those of partition/steps.py. Sizes are the largest parts, as if all parts were that large; then no rank
has to be looked at. Along one dim, two nested chunkings are either aligned (the axes of one are the first axes of the
other: one part lies inside the other) or some rank's two parts have nothing in common. So what the slowest rank
already holds is, along each dim, the smaller of the two parts or nothing at all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.network import Network
from slicewise.partition.choices import Floats, Ints, Layouts, group_sizes, mask_of

_PAIRS_AT_ONCE = 1_000_000
Bools = NDArray[np.bool_]


def transition_seconds(
    shape: tuple[int, ...], source: Layouts, target: Layouts, network: Network, item_bytes: int
) -> Floats:
    """[source, target] -> seconds."""
    height = max(1, _PAIRS_AT_ONCE // max(1, len(target)))
    seconds = np.empty((len(source), len(target)))
    for start in range(0, len(source), height):
        rows = slice(start, start + height)
        block = Layouts(source.by_dim[rows], source.partial[rows]) if len(source) > height else source
        seconds[rows] = _block(shape, block, target, network, item_bytes)
    return seconds


def _block(shape: tuple[int, ...], source: Layouts, target: Layouts, network: Network, item_bytes: int) -> Floats:
    mesh = network.cluster.mesh
    tiers = len(network.cluster.tiers)
    outer = [mask_of([number for number, axis in enumerate(mesh.axes) if axis.tier <= tier]) for tier in range(tiers)]
    outer[-1] = -1  # all of them
    relation = _relation(shape, source, target, network)
    needed = _part_items(shape, target, network)

    summed = np.zeros((1, 1), dtype=np.int64)
    terms = 1.0 if not source.partial.any() else np.empty(0)
    seconds = np.zeros((len(source), len(target)))
    if source.partial.any():
        summed = source.partial[:, None] & target.sharded
        reduced = source.partial[:, None] & ~(target.sharded | target.partial)
        holds = relation.holds & (summed == 0)
        terms = group_sizes(summed, mesh)
        lines = network.all_reduce_lines
        # a rank that holds what it needs slices before it reduces
        message = np.where(holds, needed, _part_items(shape, source, network)[:, None]) * item_bytes
        seconds += lines.latency_s[reduced] + lines.s_per_byte[reduced] * message
    else:
        holds = relation.holds

    gathers = ~holds & (summed == 0) & relation.gathers
    moves = ~holds & ~gathers
    if gathers.any():
        lines = network.all_gather_lines
        pairs = np.nonzero(gathers)
        axes = relation.crossed[pairs] & ~target.sharded[pairs[1]]
        seconds[pairs] += lines.latency_s[axes] + lines.s_per_byte[axes] * (needed[pairs[1]] * item_bytes)
    if moves.any():
        received = np.zeros(seconds.shape)
        outside = needed * terms
        for tier in range(tiers):
            inside = _common(shape, source, target, network, outer[tier])
            if source.partial.any():
                inside = inside * group_sizes(summed & ~outer[tier], mesh)
            received += (outside - inside) * network.all_to_all_s_per_byte(tier)
            outside = inside
        latency = network.all_to_all_latencies[relation.crossed | summed]
        seconds += np.where(moves, latency + received * item_bytes, 0.0)
    return seconds


@dataclass(frozen=True, slots=True)
class _Relation:
    """How source and target differ, [source, target]."""

    holds: Bools  # every part of the target lies in the rank's part of the source
    gathers: Bools  # one dim differs, whose innermost axes go, and its parts are even
    crossed: Ints  # the axes of the source along dims that differ


def _relation(shape: tuple[int, ...], source: Layouts, target: Layouts, network: Network) -> _Relation:
    # Each dim adds to one packed number: bits 0-3 count dims that differ, 4-7 those not held, 8-11 those that differ
    # and are no gather, and from bit 12 on the axes crossed, which no two dims share.
    packed = np.zeros((len(source), len(target)), dtype=np.int64)
    for dim, extent in enumerate(shape):
        (before, before_index), (after, after_index) = source.columns[dim], target.columns[dim]
        if len(before) == len(after) == 1 and before[0] == after[0]:
            continue
        one, other = before[:, None], after[None, :]
        differs = one != other
        even = extent % group_sizes(one, network.cluster.mesh) == 0
        code = differs + (differs & ~_starts(one, other)) * 16 + (differs & ~(_starts(other, one) & even)) * 256
        code = code + (np.where(differs, one, 0) << 12)
        packed += code[:, after_index][before_index]
    return _Relation(
        holds=(packed & 0xF0) == 0,
        gathers=((packed & 0xF) == 1) & ((packed & 0xF00) == 0),
        crossed=packed >> 12,
    )


def _starts(one: Ints, other: Ints) -> Bools:
    """Whether the axes of `one` are the first of `other`'s: then a part of `other` lies in a part of `one`."""
    below = one.copy()
    for shift in (1, 2, 4, 8, 16):
        below |= below >> shift
    result: Bools = (other & below) == one
    return result


def _common(shape: tuple[int, ...], source: Layouts, target: Layouts, network: Network, outer: int) -> Floats:
    """Items of the target's part that the ranks sharing the `outer` axes hold together, at the slowest rank."""
    held, row_index = (source, None) if outer == -1 else Layouts(source.by_dim & outer, source.partial * 0).distinct()
    common = np.ones((len(held), len(target)))
    for dim, extent in enumerate(shape):
        (before, before_index), (after, after_index) = held.columns[dim], target.columns[dim]
        one, other = before[:, None], after[None, :]
        smaller = np.minimum(_part(extent, one, network), _part(extent, other, network))
        table = np.where(_starts(one, other) | _starts(other, one), smaller, 0).astype(float)
        if table.size == 1:
            common *= table[0, 0]
        else:
            common *= table[:, after_index][before_index]
    return common if row_index is None else common[row_index]


def _part_items(shape: tuple[int, ...], layouts: Layouts, network: Network) -> Floats:
    parts = [_part(extent, layouts.by_dim[:, dim], network) for dim, extent in enumerate(shape)]
    return np.prod(np.array(parts, dtype=float).reshape(len(shape), len(layouts)), axis=0)


def _part(extent: int, masks: Ints, network: Network) -> Ints:
    return -(-extent // group_sizes(masks, network.cluster.mesh))
