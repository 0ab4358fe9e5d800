"""A time limit is kept wherever the search is: every look at the clock is counted, and few come after the limit."""

import time

import pytest

from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning import plan
from slicewise.plans.plan import Plan
from slicewise.search import solver
from tests.builders import dense_net, machine, residual_net

_LATE = 40  # looks: once for each thing that is under way, and for the time that was taken


class Clock:
    """A second goes by with each look."""

    def __init__(self) -> None:
        self.now_s, self.looks = time.perf_counter(), 0

    def __call__(self) -> float:
        self.looks += 1
        self.now_s += 1
        return self.now_s


def planned(graph: LayerGraph, limit_s: float | None) -> tuple[Plan, int]:
    """A plan, and how often the clock was looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", clock := Clock())
        return plan(graph, machine(2, 2, 2), time_limit=limit_s), clock.looks


@pytest.mark.parametrize("refining", [False, True])
@pytest.mark.parametrize(
    "graph", [residual_net(8), pytest.param(dense_net(), marks=pytest.mark.long)], ids=["residual", "dense"]
)
def test_the_search_ends_at_the_limit_wherever_it_is(
    graph: LayerGraph, refining: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if refining:
        monkeypatch.setattr(solver, "_QUICK_PAIRS", 0)
        monkeypatch.setattr(solver, "_PROMISING", 3)
        monkeypatch.setattr(solver, "_FIRST_LOOK", 2)
    best, looks = planned(graph, None)
    assert best.certificate["optimal"]
    assert looks > 2 * _LATE
    optimum_s, fastest_s = best.certificate["optimum_s"], best.certificate["rescored"]["fastest_s"]
    for tenths in range(10):
        limit_s = max(1.0, looks * tenths / 10)
        made, looked = planned(graph, limit_s)
        assert looked <= limit_s + _LATE
        told = made.certificate
        assert (1 - told["gap"]) * told["optimum_s"] <= optimum_s * (1 + 1e-9)
        assert told["simulated_lower_s"] <= fastest_s * (1 + 1e-9)
        baselines_s = [row["iteration_s"] for row in made.baselines.values() if row["feasible"]]
        assert made.predicted["iteration_s"] <= min(baselines_s) * (1 + 1e-8)
