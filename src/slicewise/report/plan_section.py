"""A plan as sections: the answer, the network with the reasons beside it, costs, cuts, memory, a step over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise.cost.model import CostModel
from slicewise.errors import RequestError
from slicewise.explaining.decisions import Explanation, explain
from slicewise.explaining.words import heading, sentences
from slicewise.figures.cuts import cut_figure
from slicewise.figures.holding import held_bytes
from slicewise.figures.layer_costs import layer_costs_figure
from slicewise.figures.memory import memory_figure
from slicewise.figures.network import network_figure
from slicewise.figures.runs import runs
from slicewise.figures.slicings import plan_figure
from slicewise.figures.steps import step_rows
from slicewise.figures.timeline import timeline_figure
from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.spelling import spelled
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan
from slicewise.report.sections import Facts, Figure, Grid, Part, Section, Sentences
from slicewise.report.terminal import answer, proof_told
from slicewise.report.timelines import predicted_events
from slicewise.search.baselines import baseline_slicings
from slicewise.timelines.event import Event
from slicewise.units import amount, seconds

_MOST_CUTS = 8
_MOST_STRETCHES, _MOST_REASONS = 40, 6  # that are explained: each takes a moment
REFERENCE = "data"


def plan_section(source: str, plan: Plan, measured: Sequence[Event] = (), *, brief: bool = False) -> Section:
    """`measured`: a step of the same run, below the predicted one. `brief`: only what the plan itself says, at once."""
    parts: list[Part] = [_facts(plan), Sentences(lines=[answer(plan)])]
    parts.append(Figure(name="plan", svg=plan_figure(plan), caption="Hover over a bar to see its exact value."))
    if plan.certificate:
        parts.append(Sentences(title="Proof", lines=[proof_told(plan.certificate)]))
    if brief:
        return Section(title=_title(plan), parts=parts, source=source)
    try:
        graph, cluster = plan.network(), plan.hardware()
        plan.check(plan.sized(graph), cluster.mesh)
    except RequestError as error:
        parts.append(Sentences(lines=[f"What follows from the network and the cluster is not here: {error}"]))
        return Section(title=_title(plan), parts=parts, source=source)
    events = predicted_events(plan, graph, cluster)
    timeline = Figure(name="timeline", svg=timeline_figure(events, measured), caption=_ZOOM)
    if plan.pipeline is None:
        parts += _sliced(plan, graph, model_of(plan, graph, cluster), cluster.device.memory_bytes)
    parts += [timeline, *([] if plan.pipeline else [_layers(plan)])]
    return Section(title=_title(plan), parts=parts, source=source)


_ZOOM = "Scroll or pinch to zoom, drag to move, double-click to see all again."


def _title(plan: Plan) -> str:
    return f"{plan.model} on {plan.cluster}: {plan.devices} devices, batch {plan.batch}"


def _facts(plan: Plan) -> Facts:
    row = plan.predicted
    items = []
    if "iteration_s" in row:
        items += [("time per step", seconds(row.iteration_s)), ("samples/s", f"{row.samples_per_s:,.0f}")]
    other = plan.baselines.get(REFERENCE, {})
    if other.get("feasible", True) and "iteration_s" in other and "iteration_s" in row:
        items.append((f"speed-up over {REFERENCE}", f"{other['iteration_s'] / row.iteration_s:.2f}x"))
    if "peak_memory_bytes" in row:
        items.append(("memory per device", amount(row.peak_memory_bytes, "B")))
    if "bytes_moved" in row:
        items.append(("sent per step", amount(row.bytes_moved, "B")))
    return Facts(items=items)


def _sliced(plan: Plan, graph: LayerGraph, model: CostModel, limit_bytes: float) -> list[Part]:
    explanation, reasons, more = _reasons(plan, model)
    parts: list[Part] = [
        Sentences(title="Why", lines=[heading(explanation), *more]),
        Figure(name="network", svg=network_figure(plan, graph, reasons), caption=_NETWORK),
    ]
    own = _fields(model.plan_costs(plan.slicings))
    rows = {name: {"total": float(row["peak_memory_bytes"])} for name, row in step_rows(plan).items()
            if row.get("feasible", True) and "peak_memory_bytes" in row}  # fmt: skip
    rows[next(iter(step_rows(plan)))] = held_bytes(plan, graph, costs=own)
    others, _ = baseline_slicings(model)
    costs = {name: _fields(model.plan_costs(slicings)) for name, slicings in others.items()}
    rows |= {name: held_bytes(plan, graph, others[name], costs[name]) for name in others if name in rows}
    layers = layer_costs_figure(replace(plan, costs=own), costs.get(explanation.reference), explanation.reference)
    parts.append(Figure(name="layers", svg=layers))
    parts += [
        Figure(name=f"cut-{number}", svg=svg, caption=_CUT if number == 1 else "")
        for number, svg in enumerate(_cuts(plan, plan.sized(graph)), 1)
    ]
    parts.append(Figure(name="memory", svg=memory_figure(rows, plan.asked.memory_limit_bytes or limit_bytes)))
    return parts


_NETWORK = (
    "Each box: the dims its mesh axes slice, its name, and how what it reads, its weight and what it writes are cut."
)
_CUT = "Numbers are devices. Strong: what device 0 holds."


def _reasons(plan: Plan, model: CostModel) -> tuple[Explanation, dict[str, str], list[str]]:
    """Of every stretch of layers sliced alike; where those are many, of the costliest layers that differ."""
    stretches = runs(plan)
    if len(stretches) <= _MOST_STRETCHES:
        explanation = explain(plan)
        return explanation, notes(explanation), []
    chosen: dict[object, str] = {}
    for layer in sorted(model.graph, key=lambda layer: -float(plan.costs[layer.name].get("total_s", 0.0))):
        if layer.kind.has(Trait.PRODUCT) and len(chosen) < _MOST_REASONS:
            chosen.setdefault((layer.shape, plan.slicings[layer.name]), layer.name)
    told = {}
    for name in chosen.values():
        explanation = explain(plan, layer=name)
        told[name] = sentences(explanation.decisions[0], explanation)
    more = f"Of {len(stretches)} stretches sliced alike, the reasons for {len(told)} of the costliest layers are below."
    return explanation, told, [f"{more} The command explain has them all."]


def notes(explanation: Explanation) -> dict[str, str]:
    """The sentences of the decisions that have an alternative, by the layer that they begin with."""
    told = {decision.layers[0]: sentences(decision, explanation) for decision in explanation.most}
    for decision in explanation.decisions:
        if decision.reference is not None and decision.layers[0] not in told:
            told[decision.layers[0]] = sentences(decision, explanation)
    return told


def _fields(costs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: cost.to_dict() for name, cost in costs.items()}


def _cuts(plan: Plan, graph: LayerGraph) -> list[str]:
    """One drawing per slicing of matrix products: the first layer that has it."""
    found: dict[object, str] = {}
    for layer in graph:
        slicing = plan.slicings[layer.name]
        if layer.kind.has(Trait.PRODUCT) and slicing not in found and len(found) < _MOST_CUTS:
            found[slicing] = cut_figure(layer, slicing, plan.mesh)
    return list(found.values())


def _layers(plan: Plan) -> Grid:
    rows = []
    for name, slicing in plan.slicings.items():
        cost = plan.costs.get(name, {})
        rows.append(
            (
                name,
                plan.kinds.get(name, ""),
                spelled(slicing, plan.axes),
                seconds(cost.get("compute_s", 0.0)),
                seconds(sum(cost.get(f"{term}_s", 0.0) for term in ("transfer", "halo", "reduce", "sync"))),
                amount(cost.get("bytes_moved", 0), "B"),
                amount(cost.get("memory_bytes", 0), "B"),
            )
        )
    head = ("layer", "kind", "slicing", "compute", "communication", "sent", "memory")
    return Grid(title=f"All {len(rows)} layers", head=head, rows=rows, folded=True)
