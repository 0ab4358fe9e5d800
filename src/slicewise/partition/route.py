"""Who sends what to whom, so that every rank that owns one box gets another.

Layout changes, halo exchange and reduce-scatter are all routes. The planner takes bytes from them, the runtime its
send and receive splits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.partition.parts import Box, intersect


@dataclass(frozen=True, slots=True)
class Transfer:
    source: int
    target: int
    box: Box


def route(own: Sequence[Box], needed: Sequence[Box], terms: Sequence[int] | None = None) -> list[Transfer]:
    """Transfers, those from a rank to itself included, ordered by source, then target.

    Ranks that own the same box are replicas; the k-th replica serves the k-th, which spreads the load and keeps
    traffic inside the groups that a mesh suggests. `terms` says which summand each rank holds: a rank then
    receives its needed box once per summand, to be added up.
    """
    terms = terms if terms is not None else [0] * len(own)
    replicas: dict[tuple[int, Box], list[int]] = defaultdict(list)
    for rank, held in enumerate(zip(terms, own, strict=True)):
        replicas[held].append(rank)
    transfers = []
    for target, wanted in enumerate(needed):
        turn = replicas[terms[target], own[target]].index(target)
        for (_, held_box), holders in replicas.items():
            common = intersect(held_box, wanted)
            if common is not None:
                source = target if target in holders else holders[turn % len(holders)]
                transfers.append(Transfer(source, target, common))
    return sorted(transfers, key=lambda transfer: (transfer.source, transfer.target))
