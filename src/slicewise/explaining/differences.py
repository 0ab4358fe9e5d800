"""What two plans for one network differ in, and what work each difference saves.

Layers that differ and are joined by edges are one difference. No edge joins two of them, so a plan's work (its additive
cost) changes by exactly the sum of what the differences save, in whatever order they are made.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.errors import RequestError
from slicewise.explaining.stretch import Stretch
from slicewise.graph.chunks import with_exact_statistics
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.spelling import spelled
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.search.parts import joined
from slicewise.simulate.predicting import predicted_step
from slicewise.terms import LAYER_TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Neighbouring layers that go from one slicing to another."""

    layers: tuple[str, ...]
    before: str
    after: str
    worth_s: float | None = None  # extra work if only this change were reverted, also where it hides behind compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Layers joined by edges, in stretches that change alike; costs with every layout change at their borders."""

    changes: tuple[Change, ...]
    before: Cost
    after: Cost

    @property
    def saved_s(self) -> float:
        return self.before.total_s - self.after.total_s

    def to_dict(self) -> dict[str, Any]:
        saved = self.before - self.after
        return {
            "changes": [asdict(change) for change in self.changes],
            "saved_s": self.saved_s,
            "saved_bytes": saved.bytes_moved,
            "saved": {term.name: saved.seconds(term.name) for term in LAYER_TERMS},
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two plans. Where machine, batch or training differ too, changes are listed but have no price of their own.

    Sizes of buckets may differ: what each difference saves is told with those of the first.
    """

    titles: tuple[str, str]
    predicted: tuple[Prediction, Prediction]
    differences: tuple[Difference, ...] | None  # the one that saves most first
    changes: tuple[Change, ...]

    @property
    def saved_s(self) -> float:
        return self.predicted[0].additive_s - self.predicted[1].additive_s

    def to_dict(self) -> dict[str, Any]:
        return {
            "titles": list(self.titles),
            "predicted": [row.to_dict() for row in self.predicted],
            "saved_s": self.saved_s,
            "differences": None if self.differences is None else [item.to_dict() for item in self.differences],
            "changes": [asdict(change) for change in self.changes],
        }


def compare(before: Plan | str | Path, after: Plan | str | Path, graph: LayerGraph | None = None) -> Comparison:
    """Both priced anew, as they are now.

    >>> data, filters = (sw.plan("alexnet", "p100-4x4", batch=512, strategy=name) for name in ("data", "filter"))
    >>> comparison = sw.compare(data, filters)
    >>> len(comparison.differences)
    1
    """
    plans = before, after = loaded(before), loaded(after)
    models = []
    for plan in plans:
        network, cluster = graph or plan.network(), plan.hardware()
        plan.check(plan.sized(network), cluster.mesh)
        models.append(model_of(plan, network, cluster))
    return compare_models((models[0], before.slicings), (models[1], after.slicings))


Priced = tuple[CostModel, Mapping[str, Slicing]]


def compare_models(before: Priced, after: Priced) -> Comparison:
    (model, slicings), (other, others) = before, after
    networks = [with_exact_statistics(each.graph).with_batch(1).layers for each in (model, other)]
    if networks[0] != networks[1]:
        raise RequestError(f"{model.graph.name} and {other.graph.name} are different networks; compare plans for one")
    priced = (
        model.cluster == other.cluster
        and model.graph.batch == other.graph.batch
        and (model.training.options(), model.name) == (other.training.options(), other.name)
    )
    return Comparison(
        titles=(title(model), title(other)),
        predicted=(predicted_step(model, slicings), predicted_step(other, others)),
        differences=_differences(model, slicings, others) if priced else None,
        changes=_changes(range(len(model.graph)), before, after),
    )


def title(model: CostModel) -> str:
    cluster, graph = model.cluster, model.graph
    cost = f", cost model {model.name}" if model.assumes else ""
    return f"{graph.name} on {cluster.name}, {cluster.devices} devices, batch {graph.batch}{cost}"


def _differences(
    model: CostModel, slicings: Mapping[str, Slicing], others: Mapping[str, Slicing]
) -> tuple[Difference, ...]:
    found = []
    for positions in joined(model.graph, slicings, others):
        stretch = Stretch(model, slicings, others, positions)
        changes = _changes(stretch.positions, (model, slicings), (model, others))
        found.append(
            Difference(
                changes=tuple(replace(change, worth_s=_worth_s(model, slicings, others, change)) for change in changes),
                before=stretch.cost(model, stretch.chosen),
                after=stretch.cost(model, stretch.reference),
            )
        )
    return tuple(sorted(found, key=lambda difference: -abs(difference.saved_s)))


def _worth_s(model: CostModel, slicings: Mapping[str, Slicing], others: Mapping[str, Slicing], change: Change) -> float:
    stretch = Stretch(model, others, slicings, [model.graph.index[name] for name in change.layers])
    with_it_s, without_s = stretch.seconds(model, [stretch.chosen, stretch.reference])
    return float(without_s - with_it_s)


def _changes(positions: "range | list[int]", before: Priced, after: Priced) -> tuple[Change, ...]:
    """Neighbours that change alike are told once."""
    axes = [{axis.name: axis.size for axis in model.cluster.mesh.axes} for model, _ in (before, after)]
    changes: list[Change] = []
    last = -2
    for position in positions:
        name = before[0].graph.layers[position].name
        if (axes[0], before[1][name]) == (axes[1], after[1][name]):
            continue
        one, other = spelled(before[1][name], axes[0]), spelled(after[1][name], axes[1])
        same = changes and (changes[-1].before, changes[-1].after) == (one, other) and last == position - 1
        layers = (*changes[-1].layers, name) if same else (name,)
        changes[-1 if same else len(changes) :] = [Change(layers=layers, before=one, after=other)]
        last = position
    return tuple(changes)
