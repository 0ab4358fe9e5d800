"""Explanations against the slow truth: whole plans priced anew."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.scaled import with_link
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.registry import model_named
from slicewise.cost.training import PLAIN
from slicewise.explaining.decisions import CONTENDERS, explain_slicings
from slicewise.explaining.differences import compare_models
from slicewise.explaining.stretch import Stretch
from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import SPACES, legal_slicings
from slicewise.partition.spelling import spelled
from slicewise.simulate.step import simulate_step
from tests.campaigns import examples
from tests.pricing import cost_of
from tests.property.strategies import clusters, graphs, slicings


@examples(40)
@given(graphs(), clusters(), st.sampled_from(["analytic", "optcnn"]), st.data())
def test_a_stretch_changes_by_what_the_plan_changes(
    graph: LayerGraph, cluster: Cluster, cost: str, data: st.DataObject
) -> None:
    model = model_named(cost)(graph, cluster, PLAIN)
    space = SPACES["optcnn" if cost == "optcnn" else "full"]
    one, other = (data.draw(slicings(graph, cluster.mesh, space)) for _ in range(2))
    positions = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1))
    stretch = Stretch(model, one, other, positions)
    mixed = one | {name: other[name] for name in stretch.layers}
    change = stretch.cost(model, stretch.reference) - stretch.cost(model, stretch.chosen)
    whole = cost_of(model, mixed) - cost_of(model, one)
    assert change.total_s == pytest.approx(whole.total_s, rel=1e-9, abs=1e-12)
    assert change.bytes_moved == whole.bytes_moved
    assert change.memory_bytes == whole.memory_bytes
    before_s, after_s = stretch.seconds(model, [stretch.chosen, stretch.reference])
    assert after_s - before_s == pytest.approx(change.total_s, rel=1e-9, abs=1e-12)


@examples(12)
@given(graphs(max_layers=4), clusters(), st.data())
def test_the_runner_up_of_a_layer_has_the_shortest_step_of_the_cheapest_others(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    model = AnalyticModel(graph, cluster)
    chosen = data.draw(slicings(graph, cluster.mesh))
    layer = data.draw(st.sampled_from(graph.layers))
    (decision,) = explain_slicings(model, chosen, layer=layer.name).decisions
    if layer.kind.has(Trait.EDGE) or len(decision.layers) > 1:  # the contract's, or tied to another
        return
    others = [other for other in legal_slicings(layer, cluster.mesh) if other != chosen[layer.name]]
    if not others:
        assert decision.runner_up is None
        return
    now_s, *costs_s = (cost_of(model, chosen | {layer.name: other}).total_s for other in (chosen[layer.name], *others))
    assert decision.runner_up is not None
    gap_s = decision.runner_up.cost.total_s - decision.cost.total_s
    assert gap_s <= sorted(costs_s)[:CONTENDERS][-1] - now_s + 1e-6 * now_s
    cheapest = others[costs_s.index(min(costs_s))]
    assert decision.runner_up.iteration_s <= simulate_step(model, chosen | {layer.name: cheapest}).seconds * (1 + 1e-9)


@examples(40)
@given(graphs(), clusters(), st.sampled_from(["analytic", "optcnn"]), st.data())
def test_beyond_a_bandwidth_threshold_the_other_slicing_is_better(
    graph: LayerGraph, cluster: Cluster, cost: str, data: st.DataObject
) -> None:
    letters = "abc"  # a slicing is told by its tiers' names: without digits, which number the axes
    named = tuple(replace(tier, name=letter) for tier, letter in zip(cluster.tiers, letters, strict=False))
    cluster = replace(cluster, tiers=named)
    model = model_named(cost)(graph, cluster, PLAIN)
    space = SPACES["optcnn" if cost == "optcnn" else "full"]
    chosen = data.draw(slicings(graph, cluster.mesh, space))
    axes = {axis.name: axis.size for axis in cluster.mesh.axes}
    for decision in explain_slicings(model, chosen, per_layer=True).decisions:
        if len(decision.layers) > 1:
            continue
        (name,) = decision.layers
        for flip in decision.flips:
            if flip.what == "batch":
                continue
            tier = flip.what.removesuffix(" bandwidth")
            others = [
                chosen | {name: other}
                for other in legal_slicings(graph[name], cluster.mesh, space)
                if spelled(other, axes) == flip.becomes
            ]
            if not others:  # the reference's, outside the space
                continue
            gaps = []
            for factor in (0.99, 1.01):
                there = replace(model, cluster=with_link(cluster, tier, bandwidth=flip.factor * factor))
                gaps.append(min(cost_of(there, other).total_s for other in others) - cost_of(there, chosen).total_s)
            nearer, beyond = gaps if flip.factor > 1 else gaps[::-1]
            assert beyond < 0 < nearer


@examples(40)
@given(graphs(), clusters(), st.data())
def test_differences_between_two_plans_add_up(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    one, other = (data.draw(slicings(graph, cluster.mesh)) for _ in range(2))
    comparison = compare_models((model, one), (model, other))
    assert comparison.differences is not None
    expected_s = cost_of(model, one).total_s - cost_of(model, other).total_s
    assert sum(d.saved_s for d in comparison.differences) == pytest.approx(expected_s, rel=1e-9, abs=1e-12)
    changed = {name for d in comparison.differences for change in d.changes for name in change.layers}
    assert changed == {name for name in one if one[name] != other[name]}
    for difference in comparison.differences:
        for change in difference.changes:
            undone = other | {name: one[name] for name in change.layers}
            worth_s = cost_of(model, undone).total_s - cost_of(model, other).total_s
            assert change.worth_s == pytest.approx(worth_s, rel=1e-9, abs=1e-12)
