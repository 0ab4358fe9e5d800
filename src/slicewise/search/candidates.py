"""Every slicing that a search may choose, and what each costs by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.cost.breakdown import LayerSeconds
from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_choices
from slicewise.search.pins import Pins


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Every slicing that a search may choose, per layer, and what each costs by itself."""

    model: CostModel
    choices: tuple[Choices, ...]
    seconds: tuple[LayerSeconds, ...]

    @property
    def vectors(self) -> list[Floats]:
        return [row.total_s for row in self.seconds]

    def rows(self, plan: Mapping[str, Slicing]) -> list[int] | None:
        """A plan as positions among the choices; None where it uses one that is not there."""
        found = [rows.find(plan[layer.name]) for layer, rows in zip(self.model.graph, self.choices, strict=True)]
        return None if None in found else [row for row in found if row is not None]

    def rows_kept(self, kept: Sequence[Ints]) -> "Candidates":
        """Only these choices of every layer; layers that are alike go on sharing them."""
        choices: dict[tuple[int, bytes], Choices] = {}
        seconds: dict[tuple[int, bytes], LayerSeconds] = {}
        pairs = []
        for rows, timed, keep in zip(self.choices, self.seconds, kept, strict=True):
            mine, own = (id(rows), keep.tobytes()), (id(timed), keep.tobytes())
            if mine not in choices:
                choices[mine] = rows.rows(keep)
            if own not in seconds:
                seconds[own] = timed.rows(keep)
            pairs.append((choices[mine], seconds[own]))
        return Candidates(
            model=self.model, choices=tuple(rows for rows, _ in pairs), seconds=tuple(timed for _, timed in pairs)
        )

    def slicings(self, choice: Sequence[int]) -> dict[str, Slicing]:
        return {layer.name: rows[row] for layer, rows, row in zip(self.model.graph, self.choices, choice, strict=True)}

    def memory(self, choice: Sequence[int]) -> tuple[int, int]:
        """Bytes kept, and the peak: with what the hungriest layer needs while it runs."""
        picked = list(zip(self.seconds, choice, strict=True))
        kept = sum(int(row.memory_bytes[a]) for row, a in picked)
        return kept, kept + max(int(row.transient_bytes[a]) for row, a in picked)


def candidates(model: CostModel, space: Space, known: Mapping[str, Mapping[str, Slicing]], pins: Pins) -> Candidates:
    """The legal slicings in `space` and those of the `known` plans, as the pins allow; equal layers are priced once."""
    planned: dict[int, list[Slicing]] = {}
    for layer, alike in zip(model.graph, model.alike, strict=True):
        planned.setdefault(alike, []).extend(plan[layer.name] for plan in known.values())
    shared: dict[object, Choices] = {}
    listed: dict[bytes, Choices] = {}  # equal lists are one: what is known of its layouts serves all layers with it
    choices = []
    for layer, alike in zip(model.graph, model.alike, strict=True):
        key = (alike, pins.of(layer))
        if key not in shared:
            legal = legal_choices(layer, model.cluster.mesh, space).including(planned[alike])
            restricted = pins.restrict(layer, legal)
            shared[key] = listed.setdefault(restricted.labels.tobytes(), Choices(restricted.labels, restricted.mesh))
        choices.append(shared[key])
    _tie(model.graph, choices)
    priced: dict[tuple[int, int], LayerSeconds] = {}
    for layer, alike, rows in zip(model.graph, model.alike, choices, strict=True):
        if (alike, id(rows)) not in priced:
            priced[alike, id(rows)] = model.layer_seconds(layer, rows)
    seconds = tuple(priced[alike, id(rows)] for alike, rows in zip(model.alike, choices, strict=True))
    return Candidates(model=model, choices=tuple(choices), seconds=seconds)


def _tie(graph: LayerGraph, choices: list[Choices]) -> None:
    """Layers that share weights choose among the slicings that all of them have, row by row the same."""
    for tie in graph.ties:
        common = choices[tie[0]]
        for layer in tie[1:]:
            common = common.rows(np.flatnonzero(np.isin(common.keys, choices[layer].keys)))
        if not len(common):
            names = ", ".join(graph.layers[layer].name for layer in tie)
            raise InfeasibleError(f"{names} share weights and must be sliced alike; pin them so that they can be")
        for layer in tie:
            choices[layer] = common
