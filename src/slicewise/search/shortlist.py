"""Each layer's most promising slicings, and everything that they cost.

The step that is run is not a sum, so no table of a few hundred slicings per layer can be searched for it exactly. What
judges plans by the step looks at fewer: per layer those that cost least by themselves, with and without gradient
exchange, and those that cost least beside their neighbours in the best plan so far. Small networks and machines are on
the list in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Floats, Ints
from slicewise.search.candidates import Candidates
from slicewise.search.problem import Problem, edge_tables, tie_tables

MOST = 192  # slicings of a layer

Rows = Sequence[int]  # a plan: per layer, which slicing of the list


@dataclass(frozen=True, kw_only=True)
class Shortlist:
    pool: Candidates
    plans: tuple[Rows, ...]  # the known ones
    sync_s: tuple[Floats, ...]  # gradient exchange, with each layer's share of a bucket's latency
    other_s: tuple[Floats, ...]  # everything else that a layer costs by itself

    @property
    def model(self) -> CostModel:
        return self.pool.model

    @cached_property
    def transfers(self) -> Problem:
        """Layout changes alone; layers that share weights are sliced alike."""
        never_s = 2 * sum(float(seconds.max()) for seconds in self.pool.vectors)
        matrices = edge_tables(self.model, self.pool.choices)
        for pair, matrix in tie_tables(self.model, self.pool.choices, never_s).items():
            matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
        return Problem(vectors=tuple(np.zeros_like(seconds) for seconds in self.other_s), matrices=matrices)

    def weighted(self, weight: float) -> Problem:
        """The sum of terms with gradient exchange weighted so."""
        pairs = zip(self.other_s, self.sync_s, strict=True)
        return Problem(
            vectors=tuple(other_s + weight * sync_s for other_s, sync_s in pairs), matrices=self.transfers.matrices
        )


def shortlist(pool: Candidates, plans: Sequence[Rows], most: int = MOST) -> Shortlist:
    """The `plans` are on it, the best of them first. Layers that share a list of choices go on sharing one."""
    sync_s = _amortised(pool)
    other_s = [timed.total_s - timed.sync_s for timed in pool.seconds]
    members: dict[int, list[int]] = {}
    for node, rows in enumerate(pool.choices):
        members.setdefault(id(rows), []).append(node)
    beside = _Beside(pool)
    kept: list[Ints] = [np.empty(0, dtype=np.int64)] * len(pool.choices)
    for nodes in members.values():
        whole = len(pool.choices[nodes[0]])
        planned = sorted({plan[node] for plan in plans for node in nodes})
        if whole <= most:
            chosen = np.arange(whole)
        else:
            scores = {
                (start_s + moved_s).tobytes(): start_s + moved_s
                for node in nodes
                for start_s in (other_s[node], other_s[node] + sync_s[node])
                for moved_s in (np.zeros(whole), beside.seconds(node, plans[0]))
            }
            ranks = np.argsort(np.argsort([*scores.values()], axis=1, kind="stable"), axis=1).min(axis=0)
            chosen = np.union1d(np.argsort(ranks, kind="stable")[:most], planned).astype(np.int64)
        for node in nodes:
            kept[node] = chosen
    held = pool.rows_kept(kept)
    return Shortlist(
        pool=held,
        plans=tuple([int(np.searchsorted(keep, row)) for keep, row in zip(kept, plan, strict=True)] for plan in plans),
        sync_s=tuple(seconds[keep] for seconds, keep in zip(sync_s, kept, strict=True)),
        other_s=tuple(seconds[keep] for seconds, keep in zip(other_s, kept, strict=True)),
    )


class _Beside:
    """What each slicing of a layer costs in layout changes beside the neighbours of a plan."""

    def __init__(self, pool: Candidates) -> None:
        self.pool = pool
        self._edges: dict[int, list[tuple[int, int, int]]] = {}
        for edge in pool.model.graph.edges:
            for node in edge[:2]:
                self._edges.setdefault(node, []).append(edge)
        self._known: dict[object, Floats] = {}  # equal edges are priced once

    def seconds(self, node: int, plan: Rows) -> Floats:
        total_s = np.zeros(len(self.pool.choices[node]))
        for i, j, slot in self._edges.get(node, ()):
            total_s += self._edge(i, j, slot, node == i, plan[j if node == i else i])
        return total_s

    def _edge(self, i: int, j: int, slot: int, first: bool, fixed: int) -> Floats:
        model, choices = self.pool.model, self.pool.choices
        key = (model.alike[i], model.alike[j], id(choices[i]), id(choices[j]), slot, first, fixed)
        if key not in self._known:
            one = np.array([fixed])
            before, after = (choices[i], choices[j].rows(one)) if first else (choices[i].rows(one), choices[j])
            self._known[key] = model.edge_seconds(model.graph.layers[j], slot, before, after).reshape(-1)
        return self._known[key]


def _amortised(pool: Candidates) -> list[Floats]:
    """Per layer and choice, gradient exchange with its share of a bucket's latency; equal layers are priced once."""
    priced: dict[int, Floats] = {}
    for layer, rows, timed in zip(pool.model.graph, pool.choices, pool.seconds, strict=True):
        if id(timed) not in priced:
            priced[id(timed)] = pool.model.amortised_sync_s(layer, rows) if layer.weights else timed.sync_s
    return [priced[id(timed)] for timed in pool.seconds]
