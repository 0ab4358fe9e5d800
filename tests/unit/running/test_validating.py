"""Validation from plans to scores, with runs that are made up: real ones are in tests/validation."""

from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slicewise.cluster.cluster import Cluster
from slicewise.cost.registry import MODELS
from slicewise.errors import RequestError, SlicewiseError, UnknownName
from slicewise.graph.sources import load_graph
from slicewise.plans.plan import Plan
from slicewise.report.reporting import report
from slicewise.report.validation import show_validation
from slicewise.running.near_optimal import near_optimal, spread
from slicewise.running.validating import INPUT, listed, steps_of, validate
from tests.builders import machine
from tests.pricing import Stopwatch


class Runs:
    """A machine on which every step takes twice as long as predicted; `filter` fails."""

    def __init__(self) -> None:
        self.order: list[Plan] = []

    def __call__(self, plan: Plan, iterations: int, against: Plan | None) -> dict[str, Any]:
        self.order.append(plan)
        if plan.request is not None and plan.request.strategy == "filter":
            raise RequestError("out of luck")
        seconds = 2 * plan.predicted.iteration_s
        step = {"median": seconds, "p10": 0.9 * seconds, "p90": 1.1 * seconds}
        told = {"iteration_s": step, "compute_s": seconds, "peak_memory_bytes": [1000, 2000]}
        if against is not None:
            other_s = 2 * against.predicted.iteration_s
            told["other"] = {"iteration_s": {"median": other_s}, "speedup": {"median": other_s / seconds}}
        return told


def test_all_cost_models_are_those_of_the_registry_and_each_says_whether_layers_are_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODELS, Stopwatch.name, Stopwatch)
    found = validate(
        models="lenet5", strategies="data", cost="all", batch=8, repeats=1, cluster=machine(2), runner=Runs()
    )
    left_out = {item["cost_model"]: item["reason"] for item in found.skipped}
    assert {bar.cost_model for bar in found.bars} | set(left_out) == set(MODELS)
    assert set(left_out) == {name for name, model in MODELS.items() if model.measures}
    assert all("times layers on the machine that was calibrated" in reason for reason in left_out.values())


def test_every_strategy_is_planned_priced_and_run_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, path = Runs(), tmp_path / "report.json"
    found = validate(
        models="lenet5",
        strategies=["data,filter", "pipeline"],
        cost=["analytic", "optcnn"],
        batch=8,
        repeats=2,
        cluster=machine(2),
        output=path,
        runner=runs,
    )
    assert [plan.request.strategy for plan in runs.order if plan.request] == [
        "data",
        "filter",
        "pipeline",
        "data",
        "pipeline",
    ]
    told = found.to_dict()
    assert [(bar["strategy"], bar["cost_model"]) for bar in told["bars"]] == [
        ("data", "analytic"),
        ("data", "optcnn"),
        ("pipeline", "analytic"),
    ]
    assert told["bars"][0]["accuracy"] == pytest.approx(0.5)
    assert {(item["strategy"], item["reason"]) for item in told["skipped"]} == {
        ("filter", "out of luck"),
        ("pipeline", "optcnn has no price for a pipeline"),
    }
    show_validation(told)
    assert "left out: lenet5, filter, 2 ranks: out of luck" in " ".join(capsys.readouterr().out.split())
    page = report([path])
    assert isinstance(page, str)
    assert "Predictions against runs" in page


def test_samples_take_the_shape_that_is_asked_for_and_what_does_not_fit_is_left_out() -> None:
    runs = Runs()
    shaped = validate(
        models="lenet5", strategies="data", cost="analytic", batch=8, repeats=1, cluster=machine(2), runner=runs,
        input={"lenet5": (1, 32, 32)},
    )  # fmt: skip
    assert runs.order[0].sized(runs.order[0].network()).layers[0].shape == (8, 1, 32, 32)
    assert shaped.to_dict()["input"] == {"lenet5": [1, 32, 32]}
    small = machine(2)
    crowded = replace(small, device=replace(small.device, memory_bytes=1000))
    found = validate(models="lenet5", strategies="data", cost="analytic", batch=8, cluster=crowded, runner=Runs())
    assert not found.bars
    assert "and has 1.00 kB; take a smaller `batch` or `input`" in found.skipped[0]["reason"]


def test_plans_around_the_best_are_legal_different_and_ordered() -> None:
    found = validate(
        models="lenet5",
        strategies="data",
        rank=6,
        batch=8,
        repeats=1,
        cost="analytic",
        cluster=machine(2),
        runner=Runs(),
    )
    (ranking,) = found.rankings
    assert len(ranking.predicted_s) == 6
    assert list(ranking.predicted_s) == sorted(ranking.predicted_s)


def test_the_machine_is_measured_before_each_turn_and_a_prediction_is_the_mean_of_them() -> None:
    usual, runs = machine(2), Runs()
    slower = replace(usual, device=replace(usual.device, kernel_s=1.0))
    turns = iter([usual, slower])
    asked: dict[str, Any] = {"models": "lenet5", "strategies": "data", "cost": "analytic", "batch": 8, "repeats": 2}
    (bar,) = validate(**asked, cluster=lambda ranks: next(turns), runner=runs).bars
    assert [plan.machine for plan in runs.order] == [usual, slower]
    alone = [validate(**asked, cluster=each, runner=Runs()).bars[0].predicted_s for each in (usual, slower)]
    assert alone[1] > 1.0 > alone[0]
    assert bar.predicted_s == pytest.approx(sum(alone) / 2)
    assert bar.terms["compute"][0] > 0.5


def test_a_machine_that_cannot_be_measured_again_keeps_its_figures_and_that_is_said() -> None:
    said: list[str] = []
    turns = iter([machine(2)])

    def measured(ranks: int) -> Cluster:
        for found in turns:
            return found
        raise RequestError("no luck")

    asked: dict[str, Any] = {"models": "lenet5", "strategies": "data", "cost": "analytic", "batch": 8, "repeats": 2}
    (bar,) = validate(**asked, cluster=measured, runner=Runs(), progress=said.append).bars
    alone = validate(**asked, cluster=machine(2), runner=Runs()).bars[0]
    assert bar.predicted_s == alone.predicted_s
    assert "the machine could not be measured again, its last figures count: no luck" in said


def test_near_optimal_plans_are_ordered_by_how_much_longer_than_the_best_they_take() -> None:
    """On a machine that becomes slower with every run, and where each plan takes a tenth longer than the one before."""
    slower = count(1)

    def run(plan: Plan, iterations: int, against: Plan | None) -> dict[str, Any]:
        assert against is not None or plan.request is not None
        pace = next(slower)
        step = {"median": 3.0 * pace, "p10": 1.0, "p90": 9.0}
        other = {"iteration_s": {"median": 2.0}, "speedup": {"median": 1 / (1 + 0.1 * (pace - 2))}}
        return {"iteration_s": step, "compute_s": 1.0, "peak_memory_bytes": [1], "other": other}

    asked: dict[str, Any] = {"models": "lenet5", "strategies": "data", "cost": "analytic", "batch": 8}
    found = validate(**asked, rank=5, repeats=1, cluster=machine(2), runner=run)
    (ranking,) = found.rankings
    assert ranking.measured_s == pytest.approx([2.0, 2.2, 2.4, 2.6, 2.8])
    assert ranking.spearman == pytest.approx(1.0)
    assert ranking.regret == 0.0


def test_near_optimal_begins_with_the_best() -> None:
    from slicewise.planning.asking import plan

    best = plan("lenet5", machine(2), batch=8)
    near = near_optimal(best, 5)
    assert near[0].slicings == best.slicings
    assert Counter(tuple(each.slicings.values()) for each in near).most_common(1)[0][1] == 1


@pytest.mark.parametrize(
    ("steps_s", "count", "places"),
    [
        ([1.0, 1.001, 1.002, 1.2, 1.4, 1.45, 3.0], 3, [0, 3, 5]),  # evenly apart, and none beyond 1.5 times the best
        ([1.0, 2.0, 3.0, 4.0], 3, [0, 1, 2]),  # too few are short enough: the next ones
        ([1.0, 1.1], 3, [0, 1]),  # there are no more
        ([1.0, 1.0, 1.0], 2, [0, 1]),
    ],
)
def test_near_optimal_plans_are_apart_in_time(steps_s: list[float], count: int, places: list[int]) -> None:
    assert spread(steps_s, count) == places


@pytest.mark.parametrize(("step_s", "steps"), [(0.001, 100), (0.03, 34), (0.2, 5), (0.25, 5), (10.0, 5)])
def test_short_steps_are_run_for_a_second(step_s: float, steps: int) -> None:
    from slicewise.planning.asking import plan

    best = plan("lenet5", machine(2), batch=8)
    predicted = replace(best.predicted, iteration_s=step_s)
    assert steps_of(replace(best, predicted=predicted), 5) == steps


def test_samples_that_are_not_a_networks_own_are_samples_that_it_takes() -> None:
    for name, shape in INPUT.items():
        assert load_graph(name, shape).layers[0].shape[1:] == shape


def test_lists_take_spaces_and_commas() -> None:
    assert listed(["a,b", "c", "a"]) == ["a", "b", "c"] == listed("a, b c")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"cost": "guess"}, UnknownName),
        ({"strategies": "luck"}, UnknownName),
        ({"rank": 2}, RequestError),
        ({"input": {"alexnet": (3, 64, 64)}}, RequestError),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(asked: dict[str, Any], error: type[SlicewiseError]) -> None:
    runs = Runs()
    with pytest.raises(error):
        validate(models="lenet5", cluster=machine(2), runner=runs, **asked)
    assert not runs.order
