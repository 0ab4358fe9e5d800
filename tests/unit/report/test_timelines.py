"""Predicted steps as timelines: the lanes of measured ones."""

import pytest

from slicewise.planning import baseline_plan, plan
from slicewise.report.timelines import predicted_events
from slicewise.timelines.chrome import trace_document
from slicewise.timelines.event import LANES
from tests.builders import machine, residual_net, small_cnn


def test_a_predicted_step_has_the_lanes_of_a_measured_one() -> None:
    graph, cluster = residual_net(8), machine(2, 2)
    made = plan(graph, cluster, fix=["conv*=N"])
    events = predicted_events(made, graph, cluster)
    assert {event.lane for event in events} <= set(LANES)
    (step,) = [event for event in events if event.name == "step 0"]
    assert step.stop_s == pytest.approx(made.predicted["simulated_s"])
    phases = {event.name: event for event in events if event.lane == "step"}
    assert phases["forward"].stop_s == phases["backward"].start_s
    assert phases["backward"].stop_s == pytest.approx(phases["update"].start_s)
    sync = [event for event in events if event.lane == "sync"]
    assert sync
    assert all(event.start_s >= phases["backward"].start_s for event in sync)
    compute_s = sum(e.stop_s - e.start_s for e in events if e.details.get("term") in ("forward", "backward"))
    assert compute_s == pytest.approx(made.predicted["compute_s"])
    assert trace_document(events, "predicted")["traceEvents"]


def test_a_pipeline_has_a_line_of_transfers_on_every_rank_that_receives() -> None:
    graph, cluster = small_cnn(batch=8), machine(2)
    made = baseline_plan(graph, cluster, "pipeline", batch=8, micro_batches=4)
    events = predicted_events(made, graph, cluster)
    steps = [event.stop_s for event in events if event.name == "step 0"]
    assert max(steps) == pytest.approx(made.predicted["iteration_s"])
    received = [(event.rank, event.name) for event in events if event.lane == "transfer"]
    assert [name for rank, name in received if rank == 1] == ["F0", "F1", "F2", "F3"]
    assert [name for rank, name in received if rank == 0] == ["B0", "B1", "B2", "B3"]
