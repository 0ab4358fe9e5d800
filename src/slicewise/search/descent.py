"""From a good plan to one that no small change makes faster, judged by the simulated step.

A move gives another slicing to one layer, to a stretch of layers that are sliced alike, or to the end of a stretch,
which then joins the next. Most moves can be told hopeless from the tables: what is not gradient exchange is never
hidden, so a move that adds more of it than there is exposed exchange to save cannot win. The others are simulated,
many at once, and the best are taken together as long as that helps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from slicewise.graph.kind import Trait
from slicewise.partition.choices import Floats, Ints
from slicewise.search.deadline import over
from slicewise.search.parts import connected
from slicewise.search.shortlist import Rows, Shortlist
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING

_AT_ONCE = 256  # moves simulated in a round
_SHARE = 0.25  # of gradient exchange, which may be hidden: what moves are ranked by
_TOGETHER = 8  # of them taken together
_ROUNDS = 24
_ENDS = (1, 2, 3, 5, 8, 13)  # layers of a stretch that join the next
_BUCKETS = tuple(mebibytes << 20 for mebibytes in (1, 4, 25, 100))
_WORTH = 0.005  # of the step: what another size of buckets must gain

Move = Mapping[int, int]  # layer -> its new slicing


@dataclass(frozen=True, slots=True)
class _Weighed:
    promise_s: float  # what it changes: all that is not gradient exchange, and a share of that
    move: Move


class Descent:
    """Moves from plan to plan on a shortlist."""

    def __init__(self, listed: Shortlist, many: ManyPlans, memory_limit_bytes: float) -> None:
        self.listed, self.many, self.limit = listed, many, memory_limit_bytes
        pool, graph = listed.pool, listed.model.graph
        self._tied = {node: tie for tie in graph.ties for node in tie}
        self._edges: dict[int, list[tuple[int, int]]] = {}
        for pair in listed.transfers.matrices:
            for node in pair:
                self._edges.setdefault(node, []).append(pair)
        found: dict[int, dict[bytes, int]] = {}
        for rows in pool.choices:
            if id(rows) not in found:
                found[id(rows)] = {labels.tobytes(): row for row, labels in enumerate(rows.labels)}
        self._row_of = [found[id(rows)] for rows in pool.choices]
        self._numbers = many.numbers(pool.choices)

    def descend(
        self, plan: Rows, others: Sequence[Rows] = (), deadline_s: float = float("inf")
    ) -> tuple[list[int], float]:
        """A plan that none of the moves improves, and its step. Parts of the `others` are moves too."""
        now = list(plan)
        now_s = self.simulated_s([now])[0]
        for _ in range(_ROUNDS):
            if over(deadline_s):
                break
            moves = self._promising(now, now_s, others)
            if not moves:
                break
            tried = [{**dict(enumerate(now)), **move} for move in moves]
            seconds = self.simulated_s([list(plan.values()) for plan in tried])
            order = [int(n) for n in np.argsort(seconds, kind="stable") if seconds[n] < now_s * (1 - ROUNDING)]
            joined = list(self.joined(now, [moves[n] for n in order]))
            better = list(zip(self.simulated_s(joined), joined, strict=True)) if joined else []
            fitting = [pair for pair in sorted(better) if pair[0] < now_s * (1 - ROUNDING) and self.fits(pair[1])]
            if not fitting:
                break
            now_s, now = fitting[0]
        return now, now_s

    def simulated_s(self, plans: Sequence[Rows]) -> list[float]:
        return self.many.steps_s(self._columns(plans), len(plans))

    def fastest_bucket(self, plan: Rows) -> int:
        """Bytes of gradients to sum together: not the model's only where the step is shorter by a share."""
        columns, given = self._columns([plan]), self.listed.model.training
        played = self.many.play(columns)
        took_s = float(played.seconds[0])
        if played.exposed_sync_s[0] <= _WORTH * took_s:  # nothing to gain
            return given.bucket_bytes
        steps_s = {given.bucket_bytes: took_s * (1 - _WORTH)}
        for size in _BUCKETS:
            if size not in steps_s:
                trained = replace(given, bucket_bytes=size)
                steps_s[size] = float(self.many.play(columns, trained.bucket_items).seconds[0])
        return min(steps_s, key=lambda size: steps_s[size])

    def _columns(self, plans: Sequence[Rows]) -> list[Ints]:
        return [
            numbers[list(rows if len(set(rows)) > 1 else rows[:1])]
            for numbers, rows in zip(self._numbers, zip(*plans, strict=True), strict=True)
        ]

    def stretches(self, plan: Rows) -> list[list[int]]:
        """Layers in order that are sliced alike."""
        groups: list[list[int]] = []
        before = b""
        for node, row in enumerate(plan):
            labels = self.labels(node, row)
            if not groups or labels != before:
                groups.append([])
            groups[-1].append(node)
            before = labels
        return groups

    def given(self, nodes: Sequence[int], labels: bytes) -> Move:
        """The slicing to all of the layers that can take it, and to those that share weights with them."""
        together = {other for node in nodes for other in self._tied.get(node, (node,))}
        return {node: self._row_of[node][labels] for node in sorted(together) if labels in self._row_of[node]}

    def labels(self, node: int, row: int) -> bytes:
        """What tells a slicing from others."""
        return bytes(self.listed.pool.choices[node].labels[row])

    def fits(self, plan: Rows) -> bool:
        return self.listed.pool.memory(plan)[1] <= self.limit

    def joined(self, now: list[int], moves: Sequence[Move]) -> Iterator[list[int]]:
        """The first move, the first two, and so on, of those that touch different layers."""
        plan, touched = list(now), set[int]()
        for move in moves[: 4 * _TOGETHER]:
            if touched & move.keys():
                continue
            for node, row in move.items():
                plan[node] = row
            touched |= move.keys()
            yield list(plan)
            if len(touched) > _TOGETHER * len(now):
                return

    def _promising(self, now: list[int], now_s: float, others: Sequence[Rows]) -> list[Move]:
        sum_s = self.listed.weighted(0.0).cost(now)
        exposed_s = max(0.0, now_s - sum_s)
        moves = (*self._moves(now), *(part for other in others for part in self._parts(now, other)))
        found = [weighed for move in moves if (weighed := self._weighed(now, move, exposed_s))]
        found += self._single(now, exposed_s)
        best = sorted(found, key=lambda weighed: weighed.promise_s)[:_AT_ONCE]
        return list({tuple(sorted(weighed.move.items())): weighed.move for weighed in best}.values())

    def _parts(self, now: list[int], other: Rows) -> Iterator[Move]:
        """Layers that another plan slices differently and that edges join."""
        differing = [node for node, row in enumerate(other) if row != now[node]]
        for nodes in connected(self.listed.model.graph, differing):
            yield {node: other[node] for node in nodes}

    def _moves(self, now: list[int]) -> Iterator[Move]:
        """Stretches, and their ends."""
        groups = self.stretches(now)
        graph = self.listed.model.graph
        for group in groups:
            if len(group) == 1:
                continue
            deciding = [n for n in group if graph.layers[n].kind.has(Trait.PRODUCT)] or group
            common = set.intersection(*(set(self._row_of[node]) for node in deciding))
            for labels in sorted(common):
                yield self.given(group, labels)
        for one, other in pairwise(groups):
            mine, theirs = self.labels(one[-1], now[one[-1]]), self.labels(other[0], now[other[0]])
            for count in _ENDS:
                if count < len(one):
                    yield self.given(one[-count:], theirs)
                if count < len(other):
                    yield self.given(other[:count], mine)

    def _single(self, now: list[int], exposed_s: float) -> Iterator[_Weighed]:
        """The most promising of all slicings of one layer at a time, from the tables."""
        matrices = self.listed.transfers.matrices
        nodes, rows, promises = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for node, row in enumerate(now):
            if node in self._tied:
                continue
            other_s: Floats = self.listed.other_s[node].copy()
            for i, j in self._edges.get(node, ()):
                other_s += matrices[i, j][:, now[j]] if node == i else matrices[i, j][now[i]]
            other_s -= other_s[row]
            sync_s = self.listed.sync_s[node] - self.listed.sync_s[node][row]
            can_win = np.flatnonzero(other_s < exposed_s)
            can_win = can_win[can_win != row]
            nodes.append(np.full(len(can_win), node))
            rows.append(can_win)
            promises.append(other_s[can_win] + _SHARE * sync_s[can_win])
        promise_s, of_node, to_row = np.concatenate(promises), np.concatenate(nodes), np.concatenate(rows)
        for place in np.argsort(promise_s, kind="stable")[:_AT_ONCE]:
            yield _Weighed(float(promise_s[place]), {int(of_node[place]): int(to_row[place])})

    def _weighed(self, now: list[int], move: Move, exposed_s: float) -> _Weighed | None:
        changed = {node: row for node, row in move.items() if now[node] != row}
        if not changed:
            return None
        listed, matrices = self.listed, self.listed.transfers.matrices
        other_s, sync_s = (
            sum(float(seconds[node][row] - seconds[node][now[node]]) for node, row in changed.items())
            for seconds in (listed.other_s, listed.sync_s)
        )
        for i, j in {pair for node in changed for pair in self._edges.get(node, ())}:
            matrix = matrices[i, j]
            other_s += float(matrix[changed.get(i, now[i]), changed.get(j, now[j])] - matrix[now[i], now[j]])
        return _Weighed(other_s + _SHARE * sync_s, changed) if other_s < exposed_s else None
