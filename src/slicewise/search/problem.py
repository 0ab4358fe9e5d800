"""The search problem as tables: one vector per layer, one matrix per edge."""

from collections.abc import Iterator, Mapping, Sequence
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
        vectors = tuple(vector[keep] for vector, keep in zip(self.vectors, kept, strict=True))
        return Problem(vectors=vectors, matrices=_Cut.of(self.matrices, kept, self.sizes))

    def name(self, pair: tuple[int, int]) -> object:
        """Equal for tables that are one; no table is cut for it."""
        return self.matrices.name(pair) if isinstance(self.matrices, _Cut) else id(self.matrices[pair])

    @property
    def sizes(self) -> list[int]:
        return [len(vector) for vector in self.vectors]


class _Cut(Mapping[tuple[int, int], Floats]):
    """Tables with only some choices of each node, cut when they are asked for: the next pass may keep even fewer."""

    def __init__(self, whole: Mapping[tuple[int, int], Floats], kept: Sequence[Ints], sizes: Sequence[int]) -> None:
        self._whole, self._kept, self._sizes = whole, kept, sizes
        self._names = [keep.tobytes() for keep in kept]
        self._made: dict[tuple[int, int], Floats] = {}
        self._known: dict[object, Floats] = {}

    @classmethod
    def of(cls, tables: Mapping[tuple[int, int], Floats], kept: Sequence[Ints], sizes: Sequence[int]) -> "_Cut":
        if not isinstance(tables, _Cut):
            return cls(tables, kept, sizes)
        return cls(tables._whole, [mine[rows] for mine, rows in zip(tables._kept, kept, strict=True)], tables._sizes)

    def name(self, pair: tuple[int, int]) -> object:
        return id(self._whole[pair]), self._names[pair[0]], self._names[pair[1]]

    def __getitem__(self, pair: tuple[int, int]) -> Floats:
        if pair not in self._made:
            (i, j), matrix, key = pair, self._whole[pair], self.name(pair)
            if key not in self._known:
                one, other = self._kept[i], self._kept[j]
                full = (len(one), len(other)) == (self._sizes[i], self._sizes[j])
                self._known[key] = matrix if full else matrix[one[:, None], other]
            self._made[pair] = self._known[key]
        return self._made[pair]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


def edge_tables(
    model: CostModel, choices: Sequence[Choices], deadline_s: float = float("inf")
) -> dict[tuple[int, int], Floats]:
    """Every pair of choices along every edge.

    Equal edges are priced once, for all choices that any of the equal layers still has, and each takes its own rows.
    So are edges between layers that differ in what they compute alone, where these have the same choices left.
    """
    graph = model.graph
    alike = model.alike
    union, rows = _unions(alike, choices)
    own = [np.array_equal(index, np.arange(len(union[key]))) for index, key in zip(rows, alike, strict=True)]
    named = {key: _name(taken) for key, taken in union.items()}
    known: dict[object, Floats] = {}
    cut: dict[object, Floats] = {}
    matrices: dict[tuple[int, int], Floats] = {}
    for producer, consumer, slot in graph.edges:
        ends = alike[producer], alike[consumer]
        key = (model.edge_likeness(graph.layers[consumer], slot), *(named[end] for end in ends))
        if key not in known:
            check(deadline_s)
            known[key] = model.edge_seconds(graph.layers[consumer], slot, *(union[end] for end in ends))
        matrix = known[key]
        if not (own[producer] and own[consumer]):
            part = (id(matrix), rows[producer].tobytes(), rows[consumer].tobytes())
            if part not in cut:
                cut[part] = matrix[np.ix_(rows[producer], rows[consumer])]
            matrix = cut[part]
        pair = (producer, consumer)
        matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
    return matrices


def _name(choices: Choices) -> tuple[int, bytes]:
    """Equal where choices are the same rows of one list."""
    whole, kept = choices.among or (choices, np.empty(0, dtype=np.int64))
    return id(whole), kept.tobytes()


def tie_tables(model: CostModel, choices: Sequence[Choices], never_s: float) -> dict[tuple[int, int], Floats]:
    """Layers that share weights are sliced alike: any other pair of choices costs `never_s`.

    To be more than any good plan costs is enough; much more would drown the costs in rounding.
    """
    matrices = {}
    for tie in model.graph.ties:
        for one, other in pairwise(tie):
            alike = np.equal.outer(choices[one].keys, choices[other].keys)
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
