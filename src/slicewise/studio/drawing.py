"""Figures of the plan that the page shows: the package's own, as SVG."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slicewise.errors import InfeasibleError, UnknownName
from slicewise.figures.holding import held_bytes
from slicewise.figures.layer_costs import layer_costs_figure
from slicewise.figures.memory import memory_figure
from slicewise.figures.network import network_figure
from slicewise.figures.slicings import slicings_figure
from slicewise.figures.timeline import timeline_figure
from slicewise.plans.plan import Plan
from slicewise.report.timelines import predicted_events
from slicewise.report.traces import Trace, step_of
from slicewise.search.baselines import data
from slicewise.studio.benches import Bench


def _costs(bench: Bench, plan: Plan) -> str:
    """Beside data parallelism, where that is possible."""
    try:
        reference = bench.model.plan_costs(data(bench.model))
    except InfeasibleError:
        return layer_costs_figure(plan)
    return layer_costs_figure(plan, {name: cost.to_dict() for name, cost in reference.items()})


def _memory(bench: Bench, plan: Plan) -> str:
    return memory_figure({"this plan": held_bytes(plan)}, bench.model.cluster.device.memory_bytes)


FIGURES: Mapping[str, Callable[[Bench, Plan], str]] = {
    "network": lambda _, plan: network_figure(plan),
    "slicings": lambda _, plan: slicings_figure(plan),
    "costs": _costs,
    "memory": _memory,
}
TIMELINE = "timeline"
STAGED = ("slicings", TIMELINE)  # of a pipeline, whose layers are whole


def figure(name: str, bench: Bench, plan: Plan, traces: Sequence[Trace]) -> dict[str, Any]:
    """Of measured steps the timeline alone shows something: below the predicted one."""
    known = STAGED if plan.pipeline else (*FIGURES, TIMELINE)
    if name not in known:
        raise UnknownName("figure", name, known)
    if name == TIMELINE:
        predicted, measured = predicted_events(plan, plan.network(), plan.hardware()), step_of(traces)
        return {
            "svg": timeline_figure(predicted, measured),
            "predicted_s": plan.predicted.iteration_s,
            "measured_s": max((event.stop_s for event in measured if event.lane == "step"), default=None),
        }
    return {"svg": FIGURES[name](bench, plan)}
