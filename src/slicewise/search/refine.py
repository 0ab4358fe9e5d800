"""From groups of slicings to slicings, only where it matters.

Every layer's choices start as groups on a machine with its inner axes merged (search/coarse.py). Bounds then tell
which groups a good plan could use: those are split into their members, priced exactly among each other and by the
coarse bound against groups; the others stay as they are until the rising bounds rule them out. The lower bound
approaches the optimum while most slicings are never looked at one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.search.bounds import Bounds
from slicewise.search.coarse import coarse_model
from slicewise.search.deadline import check
from slicewise.search.problem import Problem
from slicewise.units import ROUNDING

_PASSES = 4


@dataclass(frozen=True)
class Elements:
    """The elements of layers that are alike: single slicings first, then groups."""

    singles: Ints  # positions among the choices
    group_of: Ints  # per choice its group, -1 for singles and what has been dropped
    groups: int

    def __len__(self) -> int:
        return len(self.singles) + self.groups


class Refinement:
    """The state of the search between groups and slicings."""

    def __init__(
        self,
        model: CostModel,
        axes: int,
        choices: Sequence[Choices],
        vectors: Sequence[Floats],
        kept: Sequence[Ints],
        deadline_s: float = float("inf"),
    ) -> None:
        self.model, self.axes, self.choices, self.vectors = model, axes, choices, vectors
        self.deadline_s = deadline_s
        self.coarse = coarse_model(model, axes)
        # layers that are alike and pinned alike share their elements
        keys: dict[tuple[int, int], int] = {}
        self.kind = [
            keys.setdefault((alike, id(rows)), len(keys)) for alike, rows in zip(model.alike, choices, strict=True)
        ]
        self.first = {kind: node for node, kind in reversed(list(enumerate(self.kind)))}
        wholes = {id(whole): whole for whole, _ in map(_taken, choices)}
        mesh = self.coarse.cluster.mesh
        self.outer = {key: Choices(whole.labels[:, :axes], mesh) for key, whole in wholes.items()}
        self.elements = {kind: self._grouped(kind, kept) for kind in self.first}
        self.bounds = Bounds(problem=self._problem(self.elements), deadline_s=deadline_s)
        self.alive = [np.arange(len(self.elements[kind])) for kind in self.kind]

    def tighten(self, upper: float) -> None:
        self.bounds, left = self.bounds.tightened(upper, _PASSES)
        self.alive = [alive[rows] for alive, rows in zip(self.alive, left, strict=True)]

    @property
    def lower(self) -> float:
        return self.bounds.lower

    def groups_left(self) -> int:
        return sum(
            int((alive >= len(self.elements[kind].singles)).sum())
            for alive, kind in zip(self.alive, self.kind, strict=True)
        )

    def choice_bounds(self) -> list[Floats]:
        """Per layer, a bound for each of its choices; infinite where it has been dropped."""
        result = []
        for node, kind in enumerate(self.kind):
            elements, of_element = self.elements[kind], self._of_element(node)
            bounds = np.full(len(self.choices[node]), np.inf)
            bounds[elements.singles] = of_element[: len(elements.singles)]
            grouped = np.flatnonzero(elements.group_of >= 0)
            group = elements.group_of[grouped]
            vector = self.vectors[node]
            bounds[grouped] = (
                of_element[len(elements.singles) + group] + vector[grouped] - self._least(kind, elements)[group]
            )
            result.append(bounds)
        return result

    def split(self, upper: float, most: int) -> None:
        """Split the most promising groups of every layer, up to `most` slicings each and at least one group."""
        bounds = self.choice_bounds()
        parents: dict[int, Ints] = {}
        split: dict[int, Elements] = {}
        for kind in self.first:
            nodes = [node for node, other in enumerate(self.kind) if other == kind]
            least = np.min([bounds[node] for node in nodes], axis=0)  # what any of the alike layers may still use
            before = self.elements[kind]
            grouped = before.group_of >= 0
            open_choice = grouped & (least <= upper * (1 + ROUNDING))
            opened = self._opened(before, least, open_choice, most)
            keep = least[before.singles] <= upper * (1 + ROUNDING)
            new = np.flatnonzero(open_choice & opened)
            singles = np.concatenate([before.singles[keep], new])
            still = np.flatnonzero(open_choice & ~opened)
            old_groups, renumbered = np.unique(before.group_of[still], return_inverse=True)
            group_of = np.full(len(least), -1)
            group_of[still] = renumbered
            parents[kind] = np.concatenate(
                [np.flatnonzero(keep), len(before.singles) + before.group_of[new], len(before.singles) + old_groups]
            ).astype(np.int64)
            split[kind] = Elements(singles, group_of, len(old_groups))
        self._inherit(parents, split)

    @staticmethod
    def _opened(elements: Elements, bounds: Floats, open_choice: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
        """Which choices are in groups that are split now."""
        best = np.full(elements.groups, np.inf)
        rows = np.flatnonzero(open_choice)
        np.minimum.at(best, elements.group_of[rows], bounds[rows])
        members = np.bincount(elements.group_of[rows], minlength=elements.groups)
        order = np.argsort(best, kind="stable")
        before = np.cumsum(members[order]) - members[order]
        chosen = np.zeros(elements.groups, dtype=bool)
        chosen[order] = before < most
        opened = np.zeros(len(bounds), dtype=bool)
        opened[rows] = chosen[elements.group_of[rows]]
        return opened

    def _inherit(self, parents: dict[int, Ints], elements: dict[int, Elements]) -> None:
        """New bounds start from the messages of the elements that the new ones come from."""
        old, alive = self.bounds, self.alive
        rows, left = [], []
        for node, kind in enumerate(self.kind):
            position = np.full(int(parents[kind].max(initial=-1)) + 1, -1)
            position[alive[node][alive[node] < len(position)]] = np.flatnonzero(alive[node] < len(position))
            found = position[parents[kind]]
            left.append(np.flatnonzero(found >= 0))
            rows.append(found[found >= 0])
        problem = self._problem(elements).restricted(left)
        self.bounds, self.elements, self.alive = old.continued(problem, rows), elements, left

    def _of_element(self, node: int) -> Floats:
        bounds = np.full(len(self.elements[self.kind[node]]), np.inf)
        bounds[self.alive[node]] = self.bounds.of_choice[node]
        return bounds

    def _grouped(self, kind: int, kept: Sequence[Ints]) -> Elements:
        rows = self.choices[self.first[kind]]
        nodes = [node for node, other in enumerate(self.kind) if other == kind]
        held = np.unique(np.concatenate([kept[node] for node in nodes]))
        digits = rows.labels[held, : self.axes].astype(np.int64) << 4 * np.arange(self.axes)[::-1]
        _, group = np.unique(digits.sum(axis=1), return_inverse=True)
        group_of = np.full(len(rows), -1)
        group_of[held] = group
        return Elements(np.empty(0, dtype=np.int64), group_of, int(group.max()) + 1)

    def _least(self, kind: int, elements: Elements) -> Floats:
        """Per group, the cost of its cheapest member."""
        vector = self.vectors[self.first[kind]]
        least = np.full(elements.groups, np.inf)
        grouped = elements.group_of >= 0
        np.minimum.at(least, elements.group_of[grouped], vector[grouped])
        return least

    def _problem(self, elements: dict[int, Elements]) -> Problem:
        graph = self.model.graph
        outlines = {kind: self._outline(kind, elements[kind]) for kind in self.first}
        vectors = {
            kind: np.concatenate([self.vectors[node][elements[kind].singles], self._least(kind, elements[kind])])
            for kind, node in self.first.items()
        }
        known: dict[tuple[int, int, int], Floats] = {}
        matrices: dict[tuple[int, int], Floats] = {}
        for i, j, slot in graph.edges:
            key = (self.kind[i], self.kind[j], slot)
            if key not in known:
                check(self.deadline_s)
                known[key] = self._edge(key, graph.layers[j].name, outlines, elements)
            matrices[i, j] = matrices[i, j] + known[key] if (i, j) in matrices else known[key]
        return Problem(vectors=tuple(vectors[kind] for kind in self.kind), matrices=matrices)

    def _edge(
        self,
        key: tuple[int, int, int],
        consumer: str,
        outlines: dict[int, Choices],
        elements: dict[int, Elements],
    ) -> Floats:
        before, after, slot = key
        layer = self.model.graph[consumer]
        matrix = self.coarse.edge_seconds(layer, slot, outlines[before], outlines[after])
        one, other = elements[before].singles, elements[after].singles
        if len(one) and len(other):
            matrix[: len(one), : len(other)] = self.model.edge_seconds(
                layer, slot, self.choices[self.first[before]].rows(one), self.choices[self.first[after]].rows(other)
            )
        return matrix

    def _outline(self, kind: int, elements: Elements) -> Choices:
        """Every element on the machine with merged axes."""
        member = np.zeros(elements.groups, dtype=np.int64)
        grouped = np.flatnonzero(elements.group_of >= 0)
        member[elements.group_of[grouped]] = grouped
        whole, rows = _taken(self.choices[self.first[kind]])
        return self.outer[id(whole)].rows(rows[np.concatenate([elements.singles, member])])


def _taken(choices: Choices) -> tuple[Choices, Ints]:
    """The list that choices were taken from, and which of its rows they are."""
    return choices.among or (choices, np.arange(len(choices)))
