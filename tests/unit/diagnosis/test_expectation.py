"""What a plan lets expect: terms, range, shares."""

import numpy as np

from slicewise.diagnosis.expectation import expectation_of
from slicewise.planning import baseline_plan, pipeline_plan
from tests.builders import machine, small_cnn


def test_terms_and_range_are_those_of_the_prediction() -> None:
    graph, cluster = small_cnn(batch=8), machine(2)
    plan = baseline_plan(graph, cluster, "data", batch=8)
    projected = expectation_of(plan, graph, cluster)
    assert projected.step.iteration_s == plan.predicted["iteration_s"]
    assert projected.terms["sync"] == plan.predicted["exposed_sync_s"]
    assert projected.step.low_s < projected.step.iteration_s < projected.step.high_s
    assert (projected.step.low_s, projected.step.high_s) == (plan.predicted["low_s"], plan.predicted["high_s"])


def test_ranks_that_slice_evenly_have_equal_shares() -> None:
    graph, cluster = small_cnn(batch=8), machine(2)
    plan = baseline_plan(graph, cluster, "data", batch=8)
    assert expectation_of(plan, graph, cluster).shares.tolist() == [1.0, 1.0]


def test_of_three_samples_one_rank_has_two() -> None:
    graph, cluster = small_cnn(batch=3), machine(2)
    plan = baseline_plan(graph, cluster, "data", batch=3)
    assert np.allclose(expectation_of(plan, graph, cluster).shares, [1.0, 0.5])


def test_a_pipelines_ranks_wait_unseen() -> None:
    graph, cluster = small_cnn(batch=8), machine(2)
    plan = pipeline_plan(graph, cluster, batch=8)
    projected = expectation_of(plan, graph, cluster)
    assert projected.waits_inside
    assert projected.step.iteration_s == plan.predicted["iteration_s"]
