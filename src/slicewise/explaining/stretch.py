"""Layers of a plan that are decided together, and every edge that touches them.

An additive cost is a sum over layers and edges, so with all other layers fixed, these terms are all that changes when
the stretch is sliced otherwise. Layers and edges that are alike are priced once and counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_choices, refusal
from slicewise.search.pins import Pin, Pins


@dataclass(frozen=True, slots=True)
class Member:
    """Layers that are alike, sliced alike, and would be under the reference; outside the stretch they stay so."""

    alike: int
    chosen: Slicing
    reference: Slicing
    inside: bool
    pinned: tuple[tuple[Pin, ...], tuple[Pin, ...]] = ((), ())  # what is decided of them already


@dataclass(frozen=True, slots=True)
class Edge:
    before: Member
    after: Member
    slot: int


Assignment = Mapping[Member, Slicing]


class Stretch:
    """`positions` in the graph, closed under shared weights: layers that share them move together."""

    def __init__(
        self,
        model: CostModel,
        slicings: Mapping[str, Slicing],
        reference: Mapping[str, Slicing],
        positions: Iterable[int],
        pins: Pins = Pins(),  # noqa: B008 (frozen)
    ) -> None:
        graph = model.graph
        self._pins = pins
        tied = {position: tie for tie in graph.ties for position in tie}
        self.positions = sorted({other for position in positions for other in tied.get(position, (position,))})
        self.layers = tuple(graph.layers[position].name for position in self.positions)
        inside = set(self.positions)
        self._layer: dict[Member, int] = {}  # one of those alike
        self._rows: dict[tuple[Slicing, ...], Choices] = {}
        self._consumer: dict[Edge, int] = {}

        def member(position: int) -> Member:
            layer = graph.layers[position]
            name, pinned = layer.name, pins.of(layer)
            found = Member(model.alike[position], slicings[name], reference[name], position in inside, pinned)
            self._layer.setdefault(found, position)
            return found

        self._member = {position: member(position) for position in self.positions}
        self.members = Counter(self._member.values())
        self.edges: Counter[Edge] = Counter()
        for before, after, slot in graph.edges:
            if before in inside or after in inside:
                edge = Edge(member(before), member(after), slot)
                self._consumer.setdefault(edge, after)
                self.edges[edge] += 1
        self.chosen: Assignment = {member: member.chosen for member in self.members}
        self._kinds = {member: graph.layers[self._layer[member]].kind for member in self.members}
        self.reference: Assignment = {member: member.reference for member in self.members}

    @property
    def likeness(self) -> object:
        """Equal for stretches whose layers and edges cost the same, whatever their names."""
        return frozenset(self.members.items()), frozenset(self.edges.items())

    def slicings(self, assignment: Assignment) -> dict[str, Slicing]:
        """By layer."""
        return {name: assignment[self._member[at]] for name, at in zip(self.layers, self.positions, strict=True)}

    def deciding(self, assignment: Assignment) -> Slicing:
        """The slicing to tell it by: that of its first product, or of its first layer that is not input or output."""
        kinds = {member: self._kinds[member] for member in self.members}
        told = [member for member, kind in kinds.items() if kind.has(Trait.PRODUCT)]
        told += [member for member, kind in kinds.items() if not kind.has(Trait.EDGE)]
        return assignment[(told or list(self.members))[0]]

    def cost(self, model: CostModel, assignment: Assignment) -> Cost:
        """By term, with bytes."""
        total = Cost()
        for member, count in self.members.items():
            total += model.layer_cost(self._at(model, member), assignment[member]).times(count)
        for edge, count in self.edges.items():
            before, after = self._ends(edge, assignment)
            total += model.edge_cost(model.graph.layers[self._consumer[edge]], edge.slot, before, after).times(count)
        return total

    def seconds(self, model: CostModel, assignments: Sequence[Assignment]) -> Floats:
        """`cost(...).total_s` of each, without counting bytes."""

        def choices(slicings: Iterable[Slicing]) -> Choices:
            key = tuple(slicings)
            if key not in self._rows:  # every model has the same mesh
                self._rows[key] = Choices.of(key, model.cluster.mesh)
            return self._rows[key]

        total_s = np.zeros(len(assignments))
        for member, count in self.members.items():
            taken = choices(assignment[member] for assignment in assignments)
            total_s += count * model.layer_seconds(self._at(model, member), taken).total_s
        for edge, count in self.edges.items():
            before, after = zip(*(self._ends(edge, assignment) for assignment in assignments), strict=True)
            consumer = model.graph.layers[self._consumer[edge]]
            total_s += count * model.pair_seconds(consumer, edge.slot, choices(before), choices(after))
        return total_s

    def legal(self, model: CostModel, assignment: Assignment) -> bool:
        """On a model with a smaller batch, which leaves some ranks without samples; a larger one never does."""
        mesh = model.cluster.mesh
        return all(
            refusal(self._at(model, member), assignment[member], mesh) is None
            for member in self.members
            if Dim.N in assignment[member]
        )

    def memory_bytes(self, model: CostModel, assignment: Assignment) -> int:
        """Kept through the step."""
        return sum(
            count * int(model.layer_seconds(self._at(model, member), _one(model, assignment[member])).memory_bytes[0])
            for member, count in self.members.items()
        )

    def alternatives(self, model: CostModel, space: Space, room_bytes: float) -> list[tuple[float, Assignment]]:
        """One other slicing for the whole stretch, with what it costs at least: the layers, and the edges outwards.

        In that order, and as far as they keep no more than `room_bytes` above what is kept now: every slicing that
        all its products allow (all its layers, if it has none). A layer that cannot take it, and what ranks feed and
        get, stay as they are.
        """
        legal = {member: self._legal(model, member, space) for member in self.members}
        deciding = [m for m in self.members if self._at(model, m).kind.has(Trait.PRODUCT)] or list(self.members)
        first = legal[deciding[0]]
        shared = [np.isin(first.keys, legal[member].keys) for member in deciding]
        rows = first.rows(np.flatnonzero(np.all(shared, axis=0)))
        takes = {member: self._takes(model, member, rows, legal[member]) for member in self.members}
        bound, kept = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
        for member, count in self.members.items():
            alone = model.layer_seconds(self._at(model, member), takes[member])
            bound += count * alone.total_s
            kept += count * alone.memory_bytes
        for edge, count in self.edges.items():
            consumer = model.graph.layers[self._consumer[edge]]
            if not edge.before.inside:
                fixed = _one(model, edge.before.chosen)
                bound += count * model.edge_seconds(consumer, edge.slot, fixed, takes[edge.after])[0]
            elif not edge.after.inside:
                fixed = _one(model, edge.after.chosen)
                bound += count * model.edge_seconds(consumer, edge.slot, takes[edge.before], fixed)[:, 0]
        fits = kept - self.memory_bytes(model, self.chosen) <= room_bytes
        found = [
            (float(bound[row]), {member: takes[member][row] for member in self.members})
            for row in np.argsort(bound, kind="stable")
            if fits[row]
        ]
        return [(least_s, assignment) for least_s, assignment in found if assignment != self.chosen]

    def _legal(self, model: CostModel, member: Member, space: Space) -> Choices:
        """In the space, and as pins allow."""
        layer = self._at(model, member)
        choices = legal_choices(layer, model.cluster.mesh, space)
        return choices.rows(np.flatnonzero(self._pins.allows(layer, choices)))

    def _takes(self, model: CostModel, member: Member, rows: Choices, legal: Choices) -> Choices:
        """Per slicing of the stretch, what this layer takes of it."""
        kept = _one(model, member.chosen).labels[0]
        if self._at(model, member).kind.has(Trait.EDGE):
            return Choices(np.tile(kept, (len(rows), 1)), rows.mesh)
        can = np.isin(rows.keys, legal.keys)
        return Choices(np.where(can[:, None], rows.labels, kept), rows.mesh)

    def _at(self, model: CostModel, member: Member) -> Layer:
        return model.graph.layers[self._layer[member]]

    def _ends(self, edge: Edge, assignment: Assignment) -> tuple[Slicing, Slicing]:
        before, after = edge.before, edge.after
        return (
            assignment[before] if before.inside else before.chosen,
            assignment[after] if after.inside else after.chosen,
        )


def _one(model: CostModel, slicing: Slicing) -> Choices:
    return Choices.of([slicing], model.cluster.mesh)
