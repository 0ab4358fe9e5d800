"""Each layer's most promising slicings, and everything that they cost.

The step that is run is not a sum, so no table of a few hundred slicings per layer can be searched for it exactly. What
judges plans by the step looks at fewer: per layer those that cost least, by themselves and in the cheapest plan that
uses them, each with and without gradient exchange. Small networks and machines are on the list in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Floats, Ints
from slicewise.search.candidates import Candidates
from slicewise.search.problem import Problem, edge_tables, tie_tables

_MOST, _FEWEST = 192, 64  # slicings of a layer
_ENTRIES = 1_000_000  # of all tables of layout changes

Rows = Sequence[int]  # a plan: per layer, which slicing of the list


@dataclass(frozen=True, kw_only=True)
class Shortlist:
    pool: Candidates
    plans: tuple[Rows, ...]  # the known ones
    sync_s: tuple[Floats, ...]  # gradient exchange, with each layer's share of a bucket's latency
    other_s: tuple[Floats, ...]  # everything else that a layer costs by itself
    deadline_s: float  # for its tables

    @property
    def model(self) -> CostModel:
        return self.pool.model

    @cached_property
    def transfers(self) -> Problem:
        """Layout changes alone; layers that share weights are sliced alike."""
        never_s = 2 * sum(float(seconds.max()) for seconds in self.pool.vectors)
        matrices = edge_tables(self.model, self.pool.choices, self.deadline_s)
        for pair, matrix in tie_tables(self.model, self.pool.choices, never_s).items():
            matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
        return Problem(vectors=tuple(np.zeros_like(seconds) for seconds in self.other_s), matrices=matrices)

    def price(self) -> None:
        """Makes the tables now, so that `TimeIsUp` is raised here and not by the first who reads them."""
        _ = self.transfers

    def weighted(self, weight: float) -> Problem:
        """The sum of terms with gradient exchange weighted so."""
        pairs = zip(self.other_s, self.sync_s, strict=True)
        return Problem(
            vectors=tuple(other_s + weight * sync_s for other_s, sync_s in pairs), matrices=self.transfers.matrices
        )


def shortlist(
    pool: Candidates,
    plans: Sequence[Rows],
    bounds: Sequence[Floats],
    most: int | None = None,
    deadline_s: float = float("inf"),
) -> Shortlist:
    """The `plans` are on it. Layers that are alike and share a list of choices go on sharing one.

    `bounds`: per layer and choice, what no plan without gradient exchange that uses it goes below.
    """
    members: dict[tuple[int, int], list[int]] = {}
    for node, (alike, rows) in enumerate(zip(pool.model.alike, pool.choices, strict=True)):
        members.setdefault((alike, id(rows)), []).append(node)
    most = _most(pool.model) if most is None else most
    sync_s = _amortised(pool) if most else []
    kept: list[Ints] = [np.empty(0, dtype=np.int64)] * len(pool.choices)
    for nodes in members.values():
        planned = np.unique([plan[node] for plan in plans for node in nodes])
        if len(pool.choices[nodes[0]]) <= most:
            chosen = np.arange(len(pool.choices[nodes[0]]))
        elif most:
            scores = {
                score.tobytes(): score
                for node in nodes
                for alone_s in (pool.seconds[node].total_s - pool.seconds[node].sync_s, bounds[node])
                for score in (alone_s, alone_s + sync_s[node])
            }
            ranks = np.argsort(np.argsort([*scores.values()], axis=1, kind="stable"), axis=1).min(axis=0)
            chosen = np.union1d(np.argsort(ranks, kind="stable")[:most], planned)
        else:
            chosen = planned
        for node in nodes:
            kept[node] = chosen
    held = pool.rows_kept(kept)
    return Shortlist(
        pool=held,
        plans=tuple([int(np.searchsorted(keep, row)) for keep, row in zip(kept, plan, strict=True)] for plan in plans),
        sync_s=tuple(_amortised(held)),
        other_s=tuple(timed.total_s - timed.sync_s for timed in held.seconds),
        deadline_s=deadline_s,
    )


def _most(model: CostModel) -> int:
    """Slicings of a layer: fewer where many edges want a table of their own."""
    tables = len({(model.alike[i], model.alike[j], slot) for i, j, slot in model.graph.edges})
    return min(_MOST, max(_FEWEST, isqrt(_ENTRIES // max(1, tables))))


def _amortised(pool: Candidates) -> list[Floats]:
    """Per layer and choice, gradient exchange with its share of a bucket's latency; equal layers are priced once."""
    priced: dict[int, Floats] = {}
    for layer, rows, timed in zip(pool.model.graph, pool.choices, pool.seconds, strict=True):
        if id(timed) not in priced:
            priced[id(timed)] = pool.model.amortised_sync_s(layer, rows) if layer.weights else timed.sync_s
    return [priced[id(timed)] for timed in pool.seconds]
