"""The simulated step lies between its compute and the sum of its terms."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets
from slicewise.simulate.step import simulate_step
from tests.campaigns import examples
from tests.pricing import cost_of
from tests.property.strategies import clusters, graphs, slicings


@examples(40)
@given(graphs(), clusters(), st.data())
def test_the_same_plan_gives_the_same_timeline(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    chosen = data.draw(slicings(graph, cluster.mesh))
    assert simulate_step(AnalyticModel(graph, cluster), chosen) == simulate_step(AnalyticModel(graph, cluster), chosen)


@examples(40)
@given(graphs(), clusters(), st.data())
def test_without_overlap_every_bucket_is_waited_for(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, replace(cluster, overlap=0.0))
    chosen = data.draw(slicings(graph, cluster.mesh))
    total = cost_of(model, chosen)
    waited_s = sum(
        model.network.bucket(bucket.axes).seconds(bucket.items * WEIGHT_BYTES)
        for bucket in buckets(graph, chosen, cluster.mesh)
    )
    assert simulate_step(model, chosen).seconds == pytest.approx(total.total_s - total.sync_s + waited_s, rel=1e-9)


@examples(40)
@given(graphs(), clusters(), st.data())
def test_more_overlap_is_never_slower_and_the_additive_time_is_the_most(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    chosen = data.draw(slicings(graph, cluster.mesh))
    models = [AnalyticModel(graph, replace(cluster, overlap=overlap)) for overlap in (1.0, 0.5, 0.0)]
    times = [simulate_step(model, chosen).seconds for model in models]
    additive_s = cost_of(models[0], chosen).total_s
    assert times == sorted(times)
    assert times[-1] <= additive_s * (1 + 1e-9)


@examples(40)
@given(graphs(), clusters(), st.data())
def test_no_step_is_shorter_than_what_the_device_itself_does(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    model = AnalyticModel(graph, cluster)
    chosen = data.draw(slicings(graph, cluster.mesh))
    total = cost_of(model, chosen)
    assert simulate_step(model, chosen).seconds >= (total.total_s - total.sync_s) * (1 - 1e-9)


@examples(40)
@given(graphs(), clusters(), st.data())
def test_each_line_does_one_thing_at_a_time(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    timeline = simulate_step(AnalyticModel(graph, cluster), data.draw(slicings(graph, cluster.mesh)))
    for lane in ("device", "link"):
        events = [event for event in timeline.events if event.lane == lane]
        assert all(event.start_s < event.stop_s for event in events)
        assert all(one.stop_s <= other.start_s for one, other in pairwise(events))
    assert max((event.stop_s for event in timeline.events if event.lane == "device"), default=0.0) == timeline.seconds
