"""Many plans simulated at once: what the simulation of one plan says, for each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices
from slicewise.planning.alternatives import alternatives
from slicewise.planning.asking import plan
from slicewise.simulate.many import ManyPlans
from slicewise.simulate.predicting import predicted_step
from slicewise.simulate.step import simulate_step
from tests.builders import machine, small_cnn
from tests.campaigns import examples
from tests.property.strategies import clusters, graphs, slicings


@examples(60)
@given(graphs(), clusters(), st.data())
def test_each_of_many_plans_takes_what_it_takes_alone(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    plans = [data.draw(slicings(graph, cluster.mesh)) for _ in range(data.draw(st.integers(1, 4)))]
    many = ManyPlans(model)
    lists = [Choices.of([chosen[layer.name] for chosen in plans], cluster.mesh) for layer in graph]
    played = many.play(many.numbers(lists))
    alone = [simulate_step(model, chosen) for chosen in plans]
    assert played.seconds == pytest.approx([step.seconds for step in alone], rel=1e-9)
    assert played.exposed_sync_s == pytest.approx([step.exposed_sync_s for step in alone], rel=1e-9, abs=1e-12)


@examples(30)
@given(graphs(), clusters(), st.data())
def test_layers_that_all_plans_share_need_one_row(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    base, other = (data.draw(slicings(graph, cluster.mesh)) for _ in range(2))
    changed = data.draw(st.sampled_from([layer.name for layer in graph]))
    plans = [base, base | {changed: other[changed]}] if not graph.ties else [base, base]
    many = ManyPlans(model)
    expected = [simulate_step(model, chosen).seconds for chosen in plans]
    assert many.simulated_s(plans) == pytest.approx(expected, rel=1e-9)
    assert many.simulated_s(plans[::-1]) == pytest.approx(expected[::-1], rel=1e-9)  # what is remembered is right


def test_every_alternative_is_what_an_edited_plan_is_predicted_to_take() -> None:
    made = plan(small_cnn(batch=8), machine(2, 2))
    rows = alternatives(made, "conv0")
    assert len({row.slicing for row in rows}) == len(rows) > 5
    assert [row.slicing for row in rows if row.current] == [made.slicings["conv0"]]
    model = AnalyticModel(made.sized(made.network()), made.hardware())
    for row in rows:
        edited = {**made.slicings, "conv0": row.slicing}
        assert row.iteration_s == pytest.approx(predicted_step(model, edited).iteration_s, rel=1e-9)
    assert [row.iteration_s for row in rows] == sorted(row.iteration_s for row in rows)
