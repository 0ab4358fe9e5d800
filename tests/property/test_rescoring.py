"""What is returned is never slower, simulated, than the optimum or any baseline that is allowed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from slicewise.planning import plan
from slicewise.search.baselines import baseline_slicings
from slicewise.search.certificate import OPTIMUM
from slicewise.search.optimum import best_slicings
from slicewise.search.rescoring import rescored
from slicewise.simulate.step import simulate_step
from tests.builders import machine, small_cnn
from tests.property.strategies import clusters, graphs, slicings


@settings(max_examples=25)
@given(graphs(), clusters())
def test_no_baseline_beats_the_plan_when_simulated(graph: LayerGraph, cluster: Cluster) -> None:
    model = AnalyticModel(graph, cluster)
    known, _ = baseline_slicings(model)
    best, _ = best_slicings(model, Space(), known)
    again = rescored(model, best, known)
    assert again.simulated_s == pytest.approx(simulate_step(model, again.slicings).seconds)
    for other in (best, *known.values()):
        assert again.simulated_s <= simulate_step(model, other).seconds * (1 + 1e-8)


@settings(max_examples=25)
@given(graphs(), clusters(), st.data())
def test_parts_of_other_plans_only_ever_help(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    one, other = (data.draw(slicings(graph, cluster.mesh)) for _ in range(2))
    again = rescored(model, one, {"other": other})
    assert all(again.slicings[name] in (one[name], other[name]) for name in one)
    assert again.simulated_s <= min(simulate_step(model, plan).seconds for plan in (one, other)) * (1 + 1e-8)


@settings(max_examples=25)
@given(graphs(), clusters(), st.data())
def test_what_is_not_allowed_is_not_returned(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    one, other = (data.draw(slicings(graph, cluster.mesh)) for _ in range(2))
    again = rescored(model, one, {"other": other}, memory_limit_bytes=0)
    assert again.slicings == one
    assert again.origin == OPTIMUM


def test_pins_and_memory_hold_for_what_is_returned() -> None:
    cluster = machine(2, 2)
    pinned = plan(small_cnn(batch=8), cluster, fix=["conv0=H"])
    assert {dim for dim in pinned.slicings["conv0"] if dim} == {"H"}
    free = plan(small_cnn(batch=8), cluster)
    limit = 0.9 * free.predicted["peak_memory_bytes"]
    tight = plan(small_cnn(batch=8), cluster, memory_limit=limit)
    assert tight.predicted["peak_memory_bytes"] <= limit


def test_the_certificate_says_what_was_returned() -> None:
    made = plan(small_cnn(batch=8), machine(2, 2))
    told = made.certificate["rescored"]
    assert made.predicted["simulated_s"] == pytest.approx(told["simulated_s"])
    assert told["simulated_s"] <= told["optimum_simulated_s"] * (1 + 1e-9)
    assert made.certificate["optimum_s"] <= made.predicted["additive_s"] * (1 + 1e-9)
    feasible = [row["simulated_s"] for row in made.baselines.values() if row["feasible"]]
    assert all(told["simulated_s"] <= seconds * (1 + 1e-8) for seconds in feasible)
