"""From networks to plans: tables hold the model's costs, and the best plan is the cheapest of all."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel
from slicewise.cost.registry import model_named
from slicewise.cost.training import PLAIN
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_slicings, refusal
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.optimum import best_slicings
from slicewise.search.pins import Pins
from slicewise.search.problem import Problem, edge_tables
from tests.builders import machine
from tests.campaigns import examples
from tests.pricing import cost_of
from tests.property.strategies import clusters, graphs, slicings


def total_s(model: CostModel, chosen: dict[str, Slicing]) -> float:
    """Layers and edges one by one, straight from the model."""
    layers = sum(model.layer_cost(layer, chosen[layer.name]).total_s for layer in model.graph)
    edges = sum(
        model.edge_cost(layer, slot, chosen[source], chosen[layer.name]).total_s
        for layer in model.graph
        for slot, source in enumerate(layer.inputs)
    )
    return layers + edges


@examples(30)
@given(graphs(max_layers=3), clusters(), st.data())
def test_tables_hold_what_the_model_says_of_every_plan(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    model = AnalyticModel(graph, cluster)
    pool = candidates(model, Space(), {}, Pins())
    problem = Problem(vectors=tuple(pool.vectors), matrices=edge_tables(model, pool.choices))
    chosen = data.draw(slicings(graph, cluster.mesh))
    choice = pool.rows(chosen)
    assert choice is not None
    assert problem.cost(choice) == pytest.approx(total_s(model, chosen), rel=1e-9)
    plan_cost = cost_of(model, chosen)
    assert plan_cost.total_s == pytest.approx(total_s(model, chosen), rel=1e-9)


@examples(25)
@given(graphs(), clusters())
def test_the_best_plan_is_legal_and_no_dearer_than_any_baseline(graph: LayerGraph, cluster: Cluster) -> None:
    model = AnalyticModel(graph, cluster)
    known, _ = baseline_slicings(model)
    best, certificate = best_slicings(model, Space(), known)
    assert all(refusal(layer, best[layer.name], cluster.mesh) is None for layer in graph)
    assert certificate.optimal
    for slicing in known.values():
        assert total_s(model, best) <= total_s(model, slicing) * (1 + 1e-9)


@examples(20)
@given(graphs(max_layers=3), clusters(), st.data())
def test_no_plan_that_one_can_think_of_is_cheaper(graph: LayerGraph, cluster: Cluster, data: st.DataObject) -> None:
    model = AnalyticModel(graph, cluster)
    best, _ = best_slicings(model, Space(), baseline_slicings(model)[0])
    other = data.draw(slicings(graph, cluster.mesh))
    assert total_s(model, best) <= total_s(model, other) * (1 + 1e-9)


@pytest.mark.parametrize("cost", ["analytic", "optcnn"])
@pytest.mark.parametrize("sizes", [(2,), (4,), (2, 2)])
@examples(5)
@given(graph=graphs(max_layers=2))
def test_the_search_finds_the_cheapest_of_all_plans(graph: LayerGraph, sizes: tuple[int, ...], cost: str) -> None:
    model = model_named(cost)(graph, machine(*sizes), PLAIN)
    space = Space(dims_per_layer=2, dims_per_tier=1, reductions=cost == "analytic", uneven=cost == "analytic")
    options = [legal_slicings(layer, model.cluster.mesh, space) for layer in graph]
    assume(prod(map(len, options)) <= 500_000)
    best, _ = best_slicings(model, space, {})
    assert total_s(model, best) == pytest.approx(all_plans_s(model, options).min(), rel=1e-9)


def all_plans_s(model: CostModel, options: list[list[Slicing]]) -> NDArray[np.float64]:
    """The cost of every combination, one array dim per layer, from the model itself."""
    graph = model.graph
    costs = np.zeros([len(choices) for choices in options])
    for i, layer in enumerate(graph):
        vector = [model.layer_cost(layer, slicing).total_s for slicing in options[i]]
        costs += np.reshape(vector, [-1 if node == i else 1 for node in range(len(graph))])
    for i, j, slot in graph.edges:
        table = [
            [model.edge_cost(graph.layers[j], slot, before, after).total_s for after in options[j]]
            for before in options[i]
        ]
        costs += np.reshape(table, [len(options[node]) if node in (i, j) else 1 for node in range(len(graph))])
    return costs
