"""Who sends what to whom, so that every rank that owns one box gets another.

Layout changes, halo exchange and reduce-scatter are all routes. The planner takes bytes from them, the runtime its
send and receive splits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.partition.parts import Box, intersect, intersections


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
    replicas, turns = _replicas(own, terms)
    transfers = []
    for target, wanted in enumerate(needed):
        for (_, held_box), holders in replicas.items():
            common = intersect(held_box, wanted)
            if common is not None:
                transfers.append(Transfer(_source(target, holders, turns), target, common))
    return sorted(transfers, key=lambda transfer: (transfer.source, transfer.target))


def route_of(
    rank: int,
    own: Sequence[Box],
    needed: Sequence[Box],
    terms: Sequence[int] | None = None,
    periods: Sequence[int] | None = None,
) -> list[Transfer]:
    """The transfers of `route` from and to one rank, in the same order, without looking at all pairs.

    `periods`: of dims that go round, their extents: positions that far apart are one. Boxes are the needed ones' parts.
    """
    terms = terms if terms is not None else [0] * len(own)
    replicas, turns = _replicas(own, terms)
    alike = replicas[terms[rank], own[rank]]
    transfers = []
    for target, wanted in enumerate(needed):
        if target != rank and _source(target, alike, turns) == rank:
            transfers += [Transfer(rank, target, common) for common in intersections(own[rank], wanted, periods)]
    for (_, held_box), holders in replicas.items():
        for common in intersections(held_box, needed[rank], periods):
            transfers.append(Transfer(_source(rank, holders, turns), rank, common))
    return sorted(transfers, key=lambda transfer: (transfer.source, transfer.target))


def _replicas(own: Sequence[Box], terms: Sequence[int]) -> tuple[dict[tuple[int, Box], list[int]], list[int]]:
    """The ranks that hold the same, and each rank's place among them."""
    replicas: dict[tuple[int, Box], list[int]] = defaultdict(list)
    turns = []
    for rank, held in enumerate(zip(terms, own, strict=True)):
        turns.append(len(replicas[held]))
        replicas[held].append(rank)
    return replicas, turns


def _source(target: int, holders: list[int], turns: list[int]) -> int:
    """Who of those that hold a box serves `target`: itself, if it can."""
    turn = turns[target]
    # a holder's turn is its place among these very holders
    return target if turn < len(holders) and holders[turn] == target else holders[turn % len(holders)]
