"""The search problem as tables: one vector per layer, one matrix per edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.search.deadline import check


@dataclass(frozen=True, kw_only=True)
class Problem:
    """minimise  sum_i vectors[i][a_i] + sum_(i,j) matrices[i, j][a_i, a_j]  over one choice a_i per node."""

    vectors: tuple[Floats, ...]
    matrices: Mapping[tuple[int, int], Floats]  # i < j

    def cost(self, choice: Sequence[int]) -> float:
        return float(
            sum(vector[a] for vector, a in zip(self.vectors, choice, strict=True))
            + sum(matrix[choice[i], choice[j]] for (i, j), matrix in self.matrices.items())
        )

    def restricted(self, kept: Sequence[Ints]) -> "Problem":
        """The same problem with only the `kept` choices of each node; tables that are shared stay so where they can."""
        full = [len(keep) == len(vector) for keep, vector in zip(kept, self.vectors, strict=True)]
        rows = [keep.tobytes() for keep in kept]
        known: dict[tuple[int, bytes, bytes], Floats] = {}
        matrices = {}
        for (i, j), matrix in self.matrices.items():
            key = (id(matrix), rows[i], rows[j])
            if key not in known:
                known[key] = matrix if full[i] and full[j] else matrix[np.ix_(kept[i], kept[j])]
            matrices[i, j] = known[key]
        return Problem(
            vectors=tuple(vector[keep] for vector, keep in zip(self.vectors, kept, strict=True)), matrices=matrices
        )

    @property
    def sizes(self) -> list[int]:
        return [len(vector) for vector in self.vectors]


def edge_tables(
    model: CostModel, choices: Sequence[Choices], deadline_s: float = float("inf")
) -> dict[tuple[int, int], Floats]:
    """Every pair of choices along every edge.

    Equal edges are priced once, for all choices that any of the equal layers still has, and each takes its own rows.
    """
    graph = model.graph
    alike = model.alike
    union, rows = _unions(alike, choices)
    own = [np.array_equal(index, np.arange(len(union[key]))) for index, key in zip(rows, alike, strict=True)]
    known: dict[tuple[int, int, int], Floats] = {}
    cut: dict[tuple[int, int, int, bytes, bytes], Floats] = {}
    matrices: dict[tuple[int, int], Floats] = {}
    for producer, consumer, slot in graph.edges:
        key = (alike[producer], alike[consumer], slot)
        if key not in known:
            check(deadline_s)
            known[key] = model.edge_seconds(
                graph.layers[consumer], slot, union[alike[producer]], union[alike[consumer]]
            )
        matrix = known[key]
        if not (own[producer] and own[consumer]):
            part = (*key, rows[producer].tobytes(), rows[consumer].tobytes())
            if part not in cut:
                cut[part] = matrix[np.ix_(rows[producer], rows[consumer])]
            matrix = cut[part]
        pair = (producer, consumer)
        matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
    return matrices


def tie_tables(model: CostModel, choices: Sequence[Choices], never_s: float) -> dict[tuple[int, int], Floats]:
    """Layers that share weights are sliced alike: any other pair of choices costs `never_s`.

    To be more than any good plan costs is enough; much more would drown the costs in rounding.
    """
    matrices = {}
    for tie in model.graph.ties:
        for one, other in pairwise(tie):
            alike = (choices[one].labels[:, None, :] == choices[other].labels[None, :, :]).all(axis=2)
            matrices[one, other] = np.where(alike, 0.0, never_s)
    return matrices


def _unions(alike: Sequence[int], choices: Sequence[Choices]) -> tuple[dict[int, Choices], list[Ints]]:
    """For equal layers the choices of all of them together, and each layer's rows among these."""
    members: dict[int, list[int]] = {}
    for node, key in enumerate(alike):
        members.setdefault(key, []).append(node)
    union: dict[int, Choices] = {}
    rows: list[Ints] = [np.empty(0, dtype=np.int64)] * len(choices)
    for key, nodes in members.items():
        mesh = choices[nodes[0]].mesh
        taken = [choices[node].among or (choices[node], np.arange(len(choices[node]))) for node in nodes]
        if all(whole is taken[0][0] for whole, _ in taken):  # of one list: its rows tell them apart
            kept, index = np.unique(np.concatenate([rows for _, rows in taken]), return_inverse=True)
            union[key] = taken[0][0].rows(kept)
        else:
            stacked = np.concatenate([choices[node].labels for node in nodes])
            labels, index = np.unique(stacked, axis=0, return_inverse=True)
            union[key] = Choices(labels, mesh)
        ends = np.cumsum([len(choices[node]) for node in nodes])
        for node, part in zip(nodes, np.split(index, ends[:-1]), strict=True):
            rows[node] = part
    return union, rows
