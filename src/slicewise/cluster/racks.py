"""Where the members of a group stand, on a tier whose members stand in racks: racks need not divide anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod

import numpy as np


@dataclass(frozen=True, slots=True)
class RackSpan:
    """Of the groups along some axes of a tier that stand in several racks, the worst."""

    racks: int  # that a group stands in; 1 where none leaves its rack
    in_rack: int  # members of a group in one rack
    sharing: int  # members of one rack that belong to groups which leave it
    outside: int  # of a member's peers, those in other racks


@lru_cache(maxsize=4096)
def span(sizes: tuple[int, ...], along: tuple[int, ...], rack: int) -> RackSpan:
    """Members of a tier count row-major over its axes of these `sizes`; groups lie `along` some; so many fill a rack.

    6 nodes as 2 x 3 axes, racks of 4: along the first axis {0, 3} stay in a rack, {1, 4} and {2, 5} do not.
    """
    places = np.arange(prod(sizes)).reshape(sizes or (1,))
    last = range(places.ndim - len(along), places.ndim)
    members = prod(sizes[axis] for axis in along)
    groups = np.moveaxis(places, along, tuple(last)).reshape(-1, members) // rack
    counts = np.stack([(groups == number).sum(axis=1) for number in range(ceil(prod(sizes) / rack))], axis=1)
    spanned = (counts > 0).sum(axis=1)
    leaving = counts[spanned > 1]
    fewest = np.where(leaving > 0, leaving, members).min(axis=1)
    return RackSpan(
        racks=int(spanned.max()),
        in_rack=int(leaving.max(initial=0)),
        sharing=int(leaving.sum(axis=0).max(initial=0)),
        outside=int((members - fewest).max(initial=0)),
    )


def steps_per_member(sizes: Sequence[int], rack: int) -> float:
    """The fewest steps that a ring through racks takes, per step of one that knows of none: it bounds latencies."""
    fewest = 1.0
    for mask in range(1, 1 << len(sizes)):
        along = tuple(axis for axis in range(len(sizes)) if mask >> axis & 1)
        found = span(tuple(sizes), along, rack)
        if found.racks == 1:
            continue
        members = prod(sizes[axis] for axis in along)
        fewest = min(fewest, (found.racks + found.in_rack - 2) / (members - 1))
    return fewest
