"""Why a plan is what it is: each stretch of layers sliced alike, against the reference and against the runner-up.

With all other layers as they are, a stretch is priced as chosen, as the reference (data parallelism) has it, and as
the best other slicing; and the bandwidths and batches are found at which one of these would be the better choice.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slicewise.cluster.cluster import Cluster, machine_of
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.errors import InfeasibleError, RequestError
from slicewise.explaining.flips import Changed, Flip
from slicewise.explaining.stretch import Assignment, Stretch
from slicewise.explaining.words import html, sentences, text
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.partition.spelling import spelled
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.search.baselines import baseline_slicings, data
from slicewise.search.pins import Pins
from slicewise.simulate.predicting import predicted_step, predicted_steps_s
from slicewise.terms import LAYER_TERMS

_AT_ONCE = 16
_NAMES = 8  # that a message lists
CONTENDERS = 3  # of the other slicings of a stretch: what may overtake it when machine or batch change


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another slicing for a stretch; `cost` as a decision's."""

    slicing: str
    cost: Cost
    fits: bool  # in the device's memory, with all other layers as they are
    iteration_s: float = 0.0  # of the whole step with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A stretch of layers with one slicing. `cost` is of its layers and of every layout change at its borders."""

    layers: tuple[str, ...]
    slicing: str
    dims: tuple[str, ...]
    cost: Cost
    iteration_s: float  # of the whole step
    reference: Alternative | None  # None where the reference slices it the same way
    runner_up: Alternative | None  # None where nothing else is legal
    flips: tuple[Flip, ...] = ()

    @property
    def against(self) -> Alternative | None:
        """What it is measured by: the reference, or the runner-up where it is as the reference has it."""
        return self.reference or self.runner_up

    @property
    def worth_s(self) -> float:
        """Seconds that a step would take longer without it; negative where the other would be better."""
        return self.longer_s(self.against) if self.against else 0.0

    def longer_s(self, other: Alternative) -> float:
        """Seconds that a step would take longer with the other slicing, what is hidden behind compute left out."""
        return other.iteration_s - self.iteration_s

    def less_work_s(self, other: Alternative) -> float:
        """Seconds of work that it saves against the other slicing, also where that would hide behind compute."""
        return other.cost.total_s - self.cost.total_s

    def to_dict(self) -> dict[str, Any]:
        def told(other: Alternative | None) -> dict[str, Any] | None:
            if other is None:
                return None
            saved = other.cost - self.cost
            return {
                "slicing": other.slicing,
                "fits": other.fits,
                "iteration_s": other.iteration_s,
                "saved_s": self.less_work_s(other),
                "saved_bytes": saved.bytes_moved,
                "saved": {term.name: saved.seconds(term.name) for term in LAYER_TERMS},
                "cost": other.cost.to_dict(),
            }

        return {
            "layers": list(self.layers),
            "slicing": self.slicing,
            "worth_s": self.worth_s,
            "cost": self.cost.to_dict(),
            "reference": told(self.reference),
            "runner_up": told(self.runner_up),
            "flips": [asdict(flip) for flip in self.flips],
        }


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A plan taken apart."""

    title: str
    reference: str  # the strategy compared with
    reason: str  # why not data parallelism, where it is another
    predicted: Prediction
    reference_predicted: Prediction
    decisions: tuple[Decision, ...]

    @property
    def saved_s(self) -> float:
        """Of work: the sum of terms, which is what the search minimises."""
        return self.reference_predicted.additive_s - self.predicted.additive_s

    @property
    def most(self) -> tuple[Decision, ...]:
        """The three decisions that matter most."""
        told = [decision for decision in self.decisions if decision.against and abs(decision.worth_s) > 0]
        return tuple(sorted(told, key=lambda decision: -abs(decision.worth_s))[:3])

    def to_dict(self) -> dict[str, Any]:
        return {
            "reference": self.reference,
            "reason": self.reason,
            "saved_s": self.saved_s,
            "predicted": self.predicted.to_dict(),
            "reference_predicted": self.reference_predicted.to_dict(),
            "summary": [sentences(decision, self) for decision in self.most],
            "decisions": [{**decision.to_dict(), "sentence": sentences(decision, self)} for decision in self.decisions],
        }

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


def explain(
    plan: Plan | str | Path,
    graph: LayerGraph | None = None,
    cluster: str | Path | Cluster | None = None,
    *,
    layer: str | None = None,
    per_layer: bool = False,
) -> Explanation:
    """Of a plan as it is now, edited or not; of one `layer` alone, or of every layer by itself, where asked.

    Other slicings are looked for in the space that the plan was made in, under the same pins and memory limit.

    >>> plan = sw.plan("alexnet", "p100-4x4", batch=512)
    >>> sw.explain(plan, layer="classifier.6").decisions[0].slicing
    'C4@inter N4@intra'
    """
    if layer is not None and per_layer:
        raise RequestError(f'`layer="{layer}"` and `per_layer=True` are different questions; ask one at a time')
    plan = loaded(plan)
    machine = plan.hardware() if cluster is None else machine_of(cluster, plan.devices)
    network = graph or plan.network()
    plan.check(plan.sized(network), machine.mesh)
    model = model_of(plan, network, machine)
    asked = plan.asked
    return explain_slicings(
        model,
        plan.slicings,
        layer=layer,
        per_layer=per_layer,
        memory_limit_bytes=asked.memory_limit_bytes or machine.device.memory_bytes,
        space=asked.space,
        pins=Pins.parse(asked.fix, asked.forbid),
    )


def explain_slicings(
    model: CostModel,
    slicings: Mapping[str, Slicing],
    *,
    layer: str | None = None,
    per_layer: bool = False,
    memory_limit_bytes: float = float("inf"),
    space: Space | None = None,
    pins: Pins = Pins(),  # noqa: B008 (frozen)
) -> Explanation:
    """Compare with data parallelism, or with the best other strategy where the batch does not allow it."""
    reason = ""
    try:
        reference, reference_slicings = "data", data(model)
    except InfeasibleError as error:
        reason = str(error)
        reference, reference_slicings = _best_baseline(model)
    if layer is not None and layer not in model.graph.index:
        near = [name for name in model.graph.index if layer in name] or list(model.graph.index)
        more = f" and {len(near) - _NAMES} more" if len(near) > _NAMES else ""
        raise RequestError(f"no layer is called {layer!r}; there is {', '.join(near[:_NAMES])}{more}")
    groups = [[model.graph.index[layer]]] if layer else _groups(model, slicings, reference_slicings, per_layer)
    total = sum(model.plan_costs(slicings).values(), Cost())
    room_bytes = memory_limit_bytes - total.peak_memory_bytes
    judge = _Judge(model, slicings, room_bytes, space or model.space)
    cluster, graph = model.cluster, model.graph
    return Explanation(
        title=f"{graph.name} on {cluster.name}, {cluster.devices} devices, batch {graph.batch}",
        reference=reference,
        reason=reason,
        predicted=predicted_step(model, slicings),
        reference_predicted=predicted_step(model, reference_slicings),
        decisions=tuple(judge.decision(Stretch(model, slicings, reference_slicings, group, pins)) for group in groups),
    )


def _groups(
    model: CostModel, slicings: Mapping[str, Slicing], reference: Mapping[str, Slicing], per_layer: bool
) -> list[list[int]]:
    """Neighbours that are sliced alike, here and under the reference, are one stretch."""
    groups: list[list[int]] = []
    before: object = None
    for position, layer in enumerate(model.graph):
        now = (slicings[layer.name], reference[layer.name])
        if per_layer or now != before:
            groups.append([])
        groups[-1].append(position)
        before = now
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    """What is the same for all stretches that cannot be told apart."""

    slicing: Slicing
    cost: Cost
    reference: tuple[Assignment, Alternative] | None
    contenders: list[tuple[Assignment, Alternative]]
    flips: tuple[Flip, ...]


class _Judge:
    """Decides stretch by stretch. Those that cannot be told apart are priced once; the step is simulated for each."""

    def __init__(self, model: CostModel, slicings: Mapping[str, Slicing], room_bytes: float, space: Space) -> None:
        self.model, self.slicings, self.room_bytes = model, slicings, max(0.0, room_bytes)
        self.changed = Changed(model)
        self.space = space
        self.axes = {axis.name: axis.size for axis in model.cluster.mesh.axes}
        self._known: dict[object, _Weighed] = {}

    def decision(self, stretch: Stretch) -> Decision:
        """The runner-up is the one with the shortest step, of those that are cheapest by the sum of terms."""
        key = stretch.likeness
        if key not in self._known:
            self._known[key] = self._weighed(stretch)
        known = self._known[key]
        others = [*([known.reference] if known.reference else []), *known.contenders]
        plans = [self.slicings, *({**self.slicings, **stretch.slicings(assignment)} for assignment, _ in others)]
        now_s, *steps_s = predicted_steps_s(self.model, plans)
        timed = [replace(told, iteration_s=step_s) for (_, told), step_s in zip(others, steps_s, strict=True)]
        contenders = timed[1:] if known.reference else timed
        return Decision(
            layers=stretch.layers,
            slicing=spelled(known.slicing, self.axes),
            dims=tuple(dict.fromkeys(dim for dim in known.slicing if dim)),
            cost=known.cost,
            iteration_s=now_s,
            reference=timed[0] if known.reference else None,
            runner_up=min(contenders, key=lambda other: other.iteration_s) if contenders else None,
            flips=known.flips,
        )

    def _weighed(self, stretch: Stretch) -> _Weighed:
        best = self._contenders(stretch)
        reference = None if stretch.reference == stretch.chosen else stretch.reference
        others = [*([reference] if reference else []), *(other for other in best if other != reference)]
        return _Weighed(
            slicing=stretch.deciding(stretch.chosen),
            cost=stretch.cost(self.model, stretch.chosen),
            reference=(reference, self._alternative(stretch, reference)) if reference else None,
            contenders=[(other, self._alternative(stretch, other)) for other in best],
            flips=self.changed.flips(stretch, [(self._spelled(stretch, other), other) for other in others]),
        )

    def _contenders(self, stretch: Stretch) -> list[Assignment]:
        """The other slicings that fit and cost least: exact, as bounds come in order."""
        best: list[tuple[float, Assignment]] = []
        left = stretch.alternatives(self.model, self.space, self.room_bytes)
        while left and (len(best) < CONTENDERS or left[0][0] < best[-1][0]):
            now, left = left[:_AT_ONCE], left[_AT_ONCE:]
            assignments = [assignment for _, assignment in now]
            seconds = stretch.seconds(self.model, assignments).tolist()
            best = sorted([*best, *zip(seconds, assignments, strict=True)], key=lambda found: found[0])[:CONTENDERS]
        return [assignment for _, assignment in best]

    def _alternative(self, stretch: Stretch, assignment: Assignment) -> Alternative:
        kept = stretch.memory_bytes(self.model, stretch.chosen)
        return Alternative(
            slicing=self._spelled(stretch, assignment),
            cost=stretch.cost(self.model, assignment),
            fits=stretch.memory_bytes(self.model, assignment) - kept <= self.room_bytes,
        )

    def _spelled(self, stretch: Stretch, assignment: Assignment) -> str:
        return spelled(stretch.deciding(assignment), self.axes)


def _best_baseline(model: CostModel) -> tuple[str, dict[str, Slicing]]:
    found, _ = baseline_slicings(model)
    best = min(found, key=lambda name: sum(cost.total_s for cost in model.plan_costs(found[name]).values()))
    return best, found[best]
