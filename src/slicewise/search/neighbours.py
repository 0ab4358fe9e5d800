"""Plans that a descent tries, and which of them are worth a simulation.

near      a stretch of layers that are sliced alike, or its end, takes another slicing; parts of another plan
single    one layer takes another slicing
crossed   the layers before a cut as in one plan, the others as in another

Most can be told hopeless from the tables. What is not gradient exchange is never hidden: no step is shorter than the
sum of it. How much gradient exchange is hidden is not known before the simulation. So plans are ranked by several
shares of it, and those go on that are among the first by any. A kind of plan that wins by one share is then not crowded
out by the many that look good by another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slicewise.graph.kind import Trait
from slicewise.partition.choices import Floats, Ints
from slicewise.search.parts import connected
from slicewise.search.shortlist import Rows, Shortlist

_SHARES = (0.25, 0.0, 1.0)  # of gradient exchange
_ENDS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # layers of a stretch that join the next
_BETWEEN = 4  # layers that are sliced differently and do not end a stretch
_WINDOWS = 16  # of the layers in order: from each the most promising cut

Move = Mapping[int, int]  # layer -> its new slicing


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Plans, and what the tables say of each."""

    plans: Ints  # [plan, layer]
    other_s: Floats  # everything but gradient exchange
    sync_s: Floats  # gradient exchange, none of it hidden

    def promising(self, most: int, below_s: float) -> Ints:
        """At most so many of the plans whose step may be shorter than that."""
        once = {plan.tobytes(): n for n, plan in enumerate(self.plans) if self.other_s[n] < below_s}
        can = np.array([*once.values()], dtype=np.int64)
        return self.plans[can[_first(self.other_s[can], self.sync_s[can], most)]]

    @staticmethod
    def together(several: Sequence["Weighed"]) -> "Weighed":
        return Weighed(
            plans=np.concatenate([weighed.plans for weighed in several]),
            other_s=np.concatenate([weighed.other_s for weighed in several]),
            sync_s=np.concatenate([weighed.sync_s for weighed in several]),
        )


class Neighbours:
    """Of the plans on a shortlist."""

    def __init__(self, listed: Shortlist) -> None:
        self.listed, self._graph = listed, listed.model.graph
        self._tied = {node: tie for tie in self._graph.ties for node in tie}
        self._edges: dict[int, list[tuple[int, int]]] = {}
        joined = ((producer, consumer) for producer, consumer, _ in self._graph.edges)
        tied = (pair for tie in self._graph.ties for pair in pairwise(tie))
        for pair in dict.fromkeys((*joined, *tied)):
            for node in pair:
                self._edges.setdefault(node, []).append(pair)
        numbered: dict[bytes, int] = {}
        lists = {id(rows): rows for rows in listed.pool.choices}
        numbers = {
            key: np.array([numbered.setdefault(labels.tobytes(), len(numbered)) for labels in rows.labels])
            for key, rows in lists.items()
        }
        places = {}
        for key, labels in numbers.items():
            places[key] = np.full(len(numbered), -1)
            places[key][labels] = np.arange(len(labels))
        # what a slicing is called, whatever the layer; and where in a layer's list it is, -1 where it is not
        self.labels = [numbers[id(rows)] for rows in listed.pool.choices]
        self._places = [places[id(rows)] for rows in listed.pool.choices]

    def stretches(self, plan: Rows) -> list[list[int]]:
        """Layers in order that are sliced alike."""
        groups: list[list[int]] = []
        before = -1
        for node, row in enumerate(plan):
            label = int(self.labels[node][row])
            if label != before:
                groups.append([])
            groups[-1].append(node)
            before = label
        return groups

    def given(self, nodes: Sequence[int], label: int) -> Move:
        """The slicing to all of the layers that can take it, and to those that share weights with them."""
        return {node: row for node in self._together(nodes) if (row := int(self._places[node][label])) >= 0}

    def near(self, now: Rows, others: Sequence[Rows], below_s: float) -> Weighed:
        """Stretches, their ends, and layers that another plan slices differently and that edges join."""
        groups = self.stretches(now)
        moves = [*self._ends(now, groups), *(part for other in others for part in self._parts(now, other))]
        tried = np.tile(np.array(now), (len(moves), 1))
        for plan, move in zip(tried, moves, strict=True):
            plan[list(move)] = list(move.values())
        own = self._weighed(np.array([now]))
        return Weighed.together(
            [
                self._weighed(tried),
                *(
                    self._sliced(own, group, below_s)
                    for group in (*groups, *self._bridged(now, groups))
                    if len(group) > 1
                ),
            ]
        )

    def single(self, now: Rows, most: int, below_s: float) -> Ints:
        """The most promising of all slicings of one layer at a time."""
        matrices = self.listed.transfers.matrices
        nodes, rows, others, syncs = [], [], [], []
        sum_s = self.listed.weighted(0.0).cost(now)
        for node, row in enumerate(now):
            if node in self._tied:
                continue
            other_s: Floats = self.listed.other_s[node].copy()
            for i, j in self._edges.get(node, ()):
                other_s += matrices[i, j][:, now[j]] if node == i else matrices[i, j][now[i]]
            other_s += sum_s - other_s[row]
            can = np.flatnonzero(other_s < below_s)
            can = can[can != row]
            nodes.append(np.full(len(can), node))
            rows.append(can)
            others.append(other_s[can])
            syncs.append((self.listed.sync_s[node] - self.listed.sync_s[node][row])[can])
        if not nodes:
            return np.empty((0, len(now)), dtype=np.int64)
        first = _first(np.concatenate(others), np.concatenate(syncs), most)
        plans = np.tile(np.array(now), (len(first), 1))
        plans[np.arange(len(first)), np.concatenate(nodes)[first]] = np.concatenate(rows)[first]
        return plans

    def crossed(self, pairs: Sequence[tuple[Rows, Rows]], below_s: float, *, everywhere: bool = False) -> Weighed:
        """Of each pair the first plan up to a cut and the second from there on: from every window of the layers
        the most promising cut, or all of them."""
        count = len(self.listed.other_s)
        found = [self._weighed(np.empty((0, count), dtype=np.int64))]
        whole = self._weighed(np.array([after for _, after in pairs], dtype=np.int64).reshape(-1, count))
        for (before, after), whole_s, exchange_s in zip(pairs, whole.other_s, whole.sync_s, strict=True):
            one, other = np.array(before), np.array(after)
            cuts = np.flatnonzero(one != other)[1:]  # what others give is one of these, or no crossing
            if not len(cuts):
                continue
            steps = self._cut(before, after)
            other_s, sync_s = whole_s + steps[0], exchange_s + steps[1]
            cuts = cuts[other_s[cuts] < below_s]
            if not everywhere:
                cuts = cuts[np.argsort((other_s + _SHARES[0] * sync_s)[cuts], kind="stable")]
                cuts = cuts[np.unique(cuts * _WINDOWS // count, return_index=True)[1]]
            plans = np.where(np.arange(count) < cuts[:, None], one, other)
            found.append(Weighed(plans=plans, other_s=other_s[cuts], sync_s=sync_s[cuts]))
        return Weighed.together(found)

    def _cut(self, one: Rows, other: Rows) -> tuple[Floats, Floats]:
        """What the layers before a cut change by being as in the one plan: all but gradient exchange, and that."""
        other_s, sync_s = np.zeros((2, len(one) + 1))  # first what each layer changes
        for node, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                for steps_s, seconds in ((other_s, self.listed.other_s[node]), (sync_s, self.listed.sync_s[node])):
                    steps_s[node + 1] += seconds[a] - seconds[b]
        for (i, j), matrix in self.listed.transfers.matrices.items():
            if one[i] != other[i] or one[j] != other[j]:
                late, mixed = float(matrix[other[i], other[j]]), float(matrix[one[i], other[j]])
                other_s[i + 1] += mixed - late
                other_s[j + 1] += float(matrix[one[i], one[j]]) - mixed
        return np.cumsum(other_s), np.cumsum(sync_s)

    def _together(self, nodes: Sequence[int]) -> list[int]:
        return sorted({other for node in nodes for other in self._tied.get(node, (node,))})

    def _sliced(self, own: Weighed, group: Sequence[int], below_s: float) -> Weighed:
        """The layers with every slicing that all products among them have, where the step may be shorter than that."""
        now = own.plans[0]
        deciding = [n for n in group if self._graph.layers[n].kind.has(Trait.PRODUCT)] or group
        common = np.flatnonzero(np.all([self._places[node] >= 0 for node in deciding], axis=0))
        rows: dict[int, Ints] = {}
        other_s, sync_s = np.repeat(own.other_s, len(common)), np.repeat(own.sync_s, len(common))
        for node in self._together(group):
            places = self._places[node][common]
            rows[node] = np.where(places >= 0, places, now[node])
            other_s += self.listed.other_s[node][rows[node]] - self.listed.other_s[node][now[node]]
            sync_s += self.listed.sync_s[node][rows[node]] - self.listed.sync_s[node][now[node]]
        for i, j in {pair for node in rows for pair in self._edges.get(node, ())}:
            matrix = self.listed.transfers.matrices[i, j]
            other_s += matrix[rows.get(i, now[i]), rows.get(j, now[j])] - matrix[now[i], now[j]]
        can = np.flatnonzero(other_s < below_s)
        plans = np.tile(now, (len(can), 1))
        for node, taken in rows.items():
            plans[:, node] = taken[can]
        return Weighed(plans=plans, other_s=other_s[can], sync_s=sync_s[can])

    def _bridged(self, now: Rows, groups: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Stretches of one slicing that a few layers part: with these, and without."""
        met: dict[int, list[int]] = {}
        for group in groups:
            label = int(self.labels[group[0]][now[group[0]]])
            before = met.get(label, [])
            if before and group[0] - before[-1] <= _BETWEEN + 1:
                met[label] = [*before, *group]
                continue
            yield from self._filled(before)
            met[label] = list(group)
        for nodes in met.values():
            yield from self._filled(nodes)

    @staticmethod
    def _filled(nodes: list[int]) -> Iterator[list[int]]:
        if nodes and len(nodes) <= nodes[-1] - nodes[0]:
            yield nodes
            yield list(range(nodes[0], nodes[-1] + 1))

    def _ends(self, now: Rows, groups: Sequence[Sequence[int]]) -> Iterator[Move]:
        for one, other in pairwise(groups):
            mine, theirs = (int(self.labels[group[0]][now[group[0]]]) for group in (one, other))
            for count in _ENDS:
                if count < len(one):
                    yield self.given(one[-count:], theirs)
                if count < len(other):
                    yield self.given(other[:count], mine)

    def _parts(self, now: Rows, other: Rows) -> Iterator[Move]:
        differing = [node for node, row in enumerate(other) if row != now[node]]
        for nodes in connected(self._graph, differing):
            yield {node: other[node] for node in nodes}

    def _weighed(self, plans: Ints) -> Weighed:
        other_s, sync_s = np.zeros(len(plans)), np.zeros(len(plans))
        for column, own_s, exchange_s in zip(plans.T, self.listed.other_s, self.listed.sync_s, strict=True):
            other_s += own_s[column]
            sync_s += exchange_s[column]
        for (i, j), matrix in self.listed.transfers.matrices.items():
            other_s += matrix[plans[:, i], plans[:, j]]
        return Weighed(plans=plans, other_s=other_s, sync_s=sync_s)


def _first(other_s: Floats, sync_s: Floats, most: int) -> Ints:
    """Those that are among the first by any share of gradient exchange, the best first."""
    orders = np.argsort([other_s + share * sync_s for share in _SHARES], axis=1, kind="stable")
    ranks = np.argsort(orders, axis=1, kind="stable").min(axis=0)
    return np.argsort(ranks, kind="stable")[:most]
