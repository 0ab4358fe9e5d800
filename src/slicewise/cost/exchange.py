"""What an all-to-all brings to each rank, tier by tier, without listing the transfers.

The ranks that share a rank's position on tiers 0..t hold, together, the box that its own layout gives when the inner
axes are left out. So what a rank receives over tier t is what it needs, less what tiers 0..t already hold, and so on
inwards until its own part is left.
"""

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import REPLICATE, Layout
from slicewise.partition.parts import Ints, boxes


def outer_boxes(shape: tuple[int, ...], layout: Layout, mesh: Mesh, tiers: int) -> list[tuple[Ints, Ints]]:
    """For t = 0 .. tiers-1: the boxes of `layout` cut down to the axes of tiers 0..t; the last are the ranks' own."""
    return [
        boxes(
            shape,
            tuple(placement if mesh.axes[axis].tier <= tier else REPLICATE for axis, placement in enumerate(layout)),
            mesh,
        )
        for tier in range(tiers)
    ]


def overlap(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> Ints:
    """Items in common, per rank; leading dims broadcast."""
    (start, stop), (other_start, other_stop) = one, other
    result: Ints = np.clip(np.minimum(stop, other_stop) - np.maximum(start, other_start), 0, None).prod(axis=-1)
    return result


def received(
    shape: tuple[int, ...],
    layout: Layout,
    needed: tuple[Ints, Ints],
    mesh: Mesh,
    tiers: int,
    summed: tuple[int, ...] = (),
) -> Ints:
    """Items that each rank receives over each tier, as [tier, rank]; `summed` axes hold summands, all wanted."""
    needed_items = (needed[1] - needed[0]).prod(axis=-1)
    outside = needed_items * mesh.group_size(summed)
    rows = []
    for tier, held in enumerate(outer_boxes(shape, layout, mesh, tiers)):
        inner = tuple(axis for axis in summed if mesh.axes[axis].tier > tier)
        inside = overlap(held, needed) * mesh.group_size(inner)
        rows.append(outside - inside)
        outside = inside
    return np.stack(rows)
