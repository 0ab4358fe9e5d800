"""Where the boxes of a network stand: chains straight down, rank by rank, long edges in lanes of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Lanes:
    rank: list[int]  # of every node: the longest way to it
    lane: list[int]
    edges: dict[tuple[int, int], int]  # (from, to) -> the lane that a long edge goes down in
    boxed: list[bool]  # per lane, whether it holds nodes or edges alone


def lanes_of(inputs: Sequence[Sequence[int]]) -> Lanes:
    """`inputs[node]` are nodes before it."""
    count = len(inputs)
    rank = [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    for node, sources in enumerate(inputs):
        rank[node] = 1 + max((rank[source] for source in sources), default=-1)
        for source in sources:
            readers[source].append(node)
    below = [0] * count
    for node in reversed(range(count)):
        below[node] = 1 + max((below[reader] for reader in readers[node]), default=-1)
    chains, straight = _chains(inputs, readers, rank, below)
    spans = [_span(chain, inputs, readers, rank, straight) for chain in chains]
    taken: list[list[tuple[int, int]]] = []
    lane = [0] * count
    order = sorted(range(len(chains)), key=lambda number: (spans[number][0], -len(chains[number])))
    order.sort(key=lambda number: number != 0)  # the trunk stands first
    for number in order:
        place = _free(taken, spans[number])
        for node in chains[number]:
            lane[node] = place
    boxed = [True] * len(taken)
    edges = {}
    for node, sources in enumerate(inputs):
        for source in sources:
            if (source, node) not in straight and rank[node] - rank[source] > 1:
                place = _free(taken, (rank[source] + 1, rank[node] - 1), first=1)  # beside the trunk
                edges[source, node] = place
    for (source, node), kind in straight.items():
        if kind != "chain" and rank[node] - rank[source] > 1:
            edges[source, node] = lane[node] if kind == "entry" else lane[source]
    return Lanes(rank, lane, edges, [*boxed, *([False] * (len(taken) - len(boxed)))])


def _chains(
    inputs: Sequence[Sequence[int]], readers: Sequence[Sequence[int]], rank: Sequence[int], below: Sequence[int]
) -> tuple[list[list[int]], dict[tuple[int, int], str]]:
    """Every node in one chain, the longest way through the network first; edges that need no lane of their own."""
    free = set(range(len(inputs)))
    chains: list[list[int]] = []
    straight: dict[tuple[int, int], str] = {}
    for start in sorted(free, key=lambda node: (rank[node], -below[node])):
        if start not in free:
            continue
        chain = [start]
        free.discard(start)
        while ahead := [reader for reader in readers[chain[-1]] if reader in free]:
            chain.append(max(ahead, key=lambda reader: below[reader]))
            free.discard(chain[-1])
        chains.append(chain)
        straight |= dict.fromkeys(pairwise(chain), "chain")
        if inputs[start]:
            straight[max(inputs[start], key=lambda source: rank[source]), start] = "entry"
        if readers[chain[-1]]:
            straight.setdefault((chain[-1], min(readers[chain[-1]], key=lambda node: rank[node])), "exit")
    return chains, straight


def _span(
    chain: Sequence[int], inputs: Sequence[Sequence[int]], readers: Sequence[Sequence[int]], rank: Sequence[int],
    straight: dict[tuple[int, int], str],
) -> tuple[int, int]:  # fmt: skip
    """The ranks that a chain's lane is taken for, with the edges that lead into and out of it."""
    first, last = chain[0], chain[-1]
    starts = [rank[source] + 1 for source in inputs[first] if straight.get((source, first)) == "entry"]
    stops = [rank[reader] - 1 for reader in readers[last] if straight.get((last, reader)) == "exit"]
    return min([rank[first], *starts]), max([rank[last], *stops])


def _free(taken: list[list[tuple[int, int]]], span: tuple[int, int], first: int = 0) -> int:
    """The first lane that is free for a span of ranks; it is taken from now on."""
    start, stop = span
    for place in range(first, len(taken)):
        if all(stop < other[0] or start > other[1] for other in taken[place]):
            taken[place].append(span)
            return place
    taken.append([span])
    return len(taken) - 1
