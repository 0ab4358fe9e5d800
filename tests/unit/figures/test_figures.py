"""Every figure is well-formed, says what it shows, has exact values in its tooltips, and no labels that touch."""

import re
from dataclasses import replace
from typing import Any

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.figures.agreement import agreement_figure, scatter_figure
from slicewise.figures.cuts import cut_figure
from slicewise.figures.fits import fit_figure
from slicewise.figures.frontier import frontier, frontier_figure
from slicewise.figures.holding import held_bytes
from slicewise.figures.layer_costs import layer_costs_figure
from slicewise.figures.memory import memory_figure
from slicewise.figures.network import network_figure
from slicewise.figures.scaling import scaling_figure, terms_figure
from slicewise.figures.slicings import plan_figure, slicings_figure
from slicewise.figures.steps import steps_figure
from slicewise.figures.timeline import MOST_EVENTS, timeline_figure
from slicewise.figures.worth import worth_figure
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan
from slicewise.plans.plan import Plan
from slicewise.report.timelines import predicted_events
from slicewise.strategies.projecting import oracle
from slicewise.terms import LAYER_TERMS
from slicewise.timelines.event import Event
from slicewise.units import seconds
from tests.unit.figures.drawn import outside, overlapping, parsed, tooltips, words


def _plan(model: str, strategy: str, batch: int, devices: int = 16) -> Plan:
    return baseline_plan(load_graph(model), load_cluster("p100-4x4").with_devices(devices), strategy, batch=batch)


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {
        "alexnet": _plan("alexnet", "owt", 512),
        "resnet50": _plan("resnet50", "data+spatial", 64),
        "unet3d": _plan("unet3d", "spatial", 2, 8),
        "densenet121": _plan("densenet121", "data", 64, 4),
    }


def _scattered(plan: Plan) -> Plan:
    """Slicings that change at every convolution, as no plan of ours does: many runs, and long names."""
    whole = (None,) * len(plan.axes)
    changed = {
        name: whole if plan.kinds[name] == "conv" and number % 2 else slicing
        for number, (name, slicing) in enumerate(plan.slicings.items())
    }
    return replace(plan, slicings=changed)


MODELS = ("alexnet", "resnet50", "unet3d", "densenet121")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("figure", [plan_figure, slicings_figure, steps_figure, network_figure, layer_costs_figure])
def test_no_labels_of_a_plans_figure_touch_or_leave_it(plans: dict[str, Plan], model: str, figure) -> None:  # type: ignore[no-untyped-def]
    drawn = figure(plans[model])
    assert overlapping(drawn) == []
    assert outside(drawn) == []


@pytest.mark.parametrize("model", ["resnet50", "densenet121"])
def test_a_plan_of_a_hundred_runs_has_names_that_fit(plans: dict[str, Plan], model: str) -> None:
    drawn = plan_figure(_scattered(plans[model]))
    assert overlapping(drawn) == []
    assert any(word in ("layer3", "features") for word in words(drawn))  # the modules, where layers have no room


@pytest.mark.parametrize(("model", "first", "other"), [("alexnet", "features.3", "classifier.1"),
                                                      ("textcnn", "convs.0", "convs.1")])  # fmt: skip
def test_reasons_stand_beside_a_narrow_network_and_below_a_wide_one(model: str, first: str, other: str) -> None:
    made = _plan(model, "data", 64, 4)
    reasons = {first: "one good reason " * 20, other: "because", "no such layer": "never"}
    drawn = network_figure(made, notes=reasons)
    told = words(drawn)
    assert overlapping(drawn) == []
    assert outside(drawn) == []
    assert "because" in told
    assert "never" not in told
    assert sum(word.count("good") for word in told) == 20
    numbered = [word for word in told if word in ("1", "2")]
    assert len(numbered) == (4 if model == "textcnn" else 0)


@pytest.mark.parametrize("devices", [2, 8])
def test_a_pipeline_is_drawn_as_stages_that_hold_every_layer_once(devices: int) -> None:
    made = _plan("resnet50", "pipeline", 32, devices)
    drawn = plan_figure(made)
    assert overlapping(drawn) == []
    held = [title for title in tooltips(drawn) if title.startswith("device ")]
    assert len(held) == devices
    shown = sum(kind not in ("input", "output", "fork") for kind in made.kinds.values())
    counts = [re.search(r"\((\d+) layers\)", title) for title in held]
    assert sum(int(count[1]) if count else 1 for count in counts) == shown


def test_labels_of_all_other_figures_keep_apart(plans: dict[str, Plan]) -> None:
    made = plans["unet3d"]
    graph = made.sized(made.network())
    rows = [row.to_dict() for row in oracle("lenet5", "abci-v100", batch_per_device=8, devices=[1, 4, 16, 1024])]
    figures = [
        memory_figure({"this plan": held_bytes(made), "data": {"total": 5e9}}, 16e9),
        frontier_figure([("a", 0.02, 2e9), ("b", 0.03, 1e9), ("c", 0.031, 1.01e9), ("d", 0.05, 5e8)], 1.5e9),
        agreement_figure({"compute": 0.02, "step": 0.03}, {"compute": 0.03, "sync": 0.01, "step": 0.05}),
        scatter_figure([("a", 0.02, 0.03), ("b", 0.3, 0.28)]),
        timeline_figure(predicted_events(made, made.network(), made.hardware())),
        worth_figure([("conv1", "N16", 0.02, "because"), ("fc", "F16", -0.001, "still")]),
        cut_figure(graph["down.0.0"], made.slicings["down.0.0"], made.mesh),
        scaling_figure(rows, [("data", 4, 0.01)]),
        terms_figure(rows, [("data", 4, 0.01)]),
    ]
    for drawn in figures:
        assert overlapping(drawn) == []
        assert outside(drawn) == []


def test_tooltips_have_the_exact_values(plans: dict[str, Plan]) -> None:
    made = plans["alexnet"]
    told = tooltips(layer_costs_figure(made))
    for term in LAYER_TERMS:
        value = float(made.costs["features.3"][f"{term.name}_s"])
        assert (f"features.3 here, {term.name}: {seconds(value)}" in told) == (value > 0)
    holders = held_bytes(made)
    for name, value in holders.items():
        assert (f"mine, {name}: {value:,.0f} B" in tooltips(memory_figure({"mine": holders}))) == (value > 0)


def test_the_scaling_figure_tells_every_row_and_why_others_are_missing() -> None:
    table = oracle("resnet50", "abci-v100", batch_per_device=32, devices=[4, 1024])
    drawn = scaling_figure([row.to_dict() for row in table], [("data", 4, 0.123)])
    told = "\n".join(tooltips(drawn))
    for row in table:
        assert (f"{row.strategy} on {row.devices} devices: {row.iteration_s:.6g} s" in told) == (row.terms is not None)
    assert "measured, data on 4: 0.123 s" in told
    assert any(word.startswith("filter on 1,024: filters: conv1 has 64") for word in words(drawn))


def test_names_cannot_become_markup(plans: dict[str, Plan]) -> None:
    made = plans["alexnet"]
    evil = '<script>alert("x")</script>'

    def renamed(name: str) -> str:
        return evil if name == "features.3" else name

    graph = made.network()
    layers = tuple(
        replace(layer, name=renamed(layer.name), inputs=tuple(map(renamed, layer.inputs))) for layer in graph
    )
    fields: dict[str, Any] = {
        field: {renamed(key): value for key, value in getattr(made, field).items()}
        for field in ("slicings", "kinds", "costs")
    }
    changed = replace(made, model=evil, graph=replace(graph, name=evil, layers=layers), **fields)
    for drawn in (plan_figure(changed), network_figure(changed), layer_costs_figure(changed)):
        assert "<script" not in drawn
        assert not list(parsed(drawn).iter("{http://www.w3.org/2000/svg}script"))
    assert any(evil in title for title in tooltips(network_figure(changed)))


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    points = [("slow", 5.0, 1.0), ("fast", 1.0, 9.0), ("worse", 5.5, 2.0), ("middle", 3.0, 3.0)]
    assert [name for name, _, _ in frontier(points)] == ["slow", "middle", "fast"]


def test_an_oracle_with_nothing_possible_draws_so() -> None:
    rows = [row.to_dict() for row in oracle("lenet5", "abci-v100", batch=1, devices=[64], strategies=["data"])]
    assert "Nothing is possible." in words(scaling_figure(rows))


def test_a_step_of_twenty_thousand_events_is_drawn_by_its_longest() -> None:
    events = [Event(rank=0, lane="compute", name=f"op{n}", start_s=n * 1e-6, stop_s=n * 1e-6 + 1e-8 * (n % 100 + 1))
              for n in range(20_000)]  # fmt: skip
    drawn = timeline_figure([], events)
    assert len(tooltips(drawn)) == MOST_EVENTS
    assert any("longest events are drawn" in word for word in words(drawn))


def test_a_fit_shows_every_point_and_those_far_off_at_the_edge() -> None:
    drawn = fit_figure({"window forward": [(1e-3, 1.1e-3), (2e-3, 1.9e-3)], "pool forward": [(1e-3, 1.0)]})
    assert sum("fitted" in told for told in tooltips(drawn)) == 3
    assert "pool forward: measured 1.00 s, fitted 1.00 ms" in tooltips(drawn)
