"""Keys and values that are passed round: their letters, their price by hand, and when a plan has them."""

from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.recost import recost_terms
from slicewise.cost.tiers import bytes_by_tier
from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import with_rings
from slicewise.graph.sources import load_graph
from slicewise.partition.layout import Slicing
from slicewise.plans.plan import Plan
from slicewise.search.baselines import BASELINES
from slicewise.simulate.many import ManyPlans
from slicewise.simulate.predicting import predicted_step
from slicewise.simulate.step import simulate_step
from tests.builders import Net, machine

ALPHA, BETA = 4e-6, 1e-9  # of `machine`'s one tier


def attending(tokens: int, batch: int = 1) -> LayerGraph:
    """One head: only queries and keys can be sliced."""
    net = Net("attending")
    x = net.fork(net.conv(net.input(batch, 1, tokens, 64), 1))
    net.output(net.attention(x, x, x))
    return net.graph


def ringed(graph: LayerGraph) -> LayerGraph:
    return with_rings(graph, ["attention0"])


def by_token(graph: LayerGraph, cluster: Cluster) -> dict[str, Slicing]:
    return BASELINES["sequence"](AnalyticModel(graph, cluster))


def test_keys_and_values_are_spelled_as_queries_and_masks_keep_all_columns() -> None:
    graph = load_graph("swin_t")
    name = "features.1.1.attn.scaled_dot_product_attention_1"
    assert graph[name].input_dims == ("NHAQ.", "NHAK.", "NHAK.", "HAQK")
    made = with_rings(graph, [name])
    assert made[name].input_dims == ("NHAQ.", "NHAQ.", "NHAQ.", "HAQ.")
    assert made[name].passes_keys
    assert [layer.name for layer in made if layer.passes_keys] == [name]


@pytest.mark.parametrize("name", ["vit_b_16", "swin_t"])
def test_a_network_without_rings_is_what_it_was(name: str) -> None:
    graph = load_graph(name)
    attention = [layer.name for layer in graph if layer.kind.value == "attention"]
    assert with_rings(with_rings(graph, attention), ()) == graph


def test_what_goes_round_by_hand() -> None:
    """64 tokens of 64 channels on 4 devices: each hands on three parts of 16 keys and values, in three rounds."""
    graph, cluster = ringed(attending(64)), machine(4)
    model = AnalyticModel(graph, cluster)
    slicing = (Dim.Q, Dim.Q)
    cost = model.layer_cost(graph["attention0"], slicing)
    part = 2 * 16 * 64
    assert cost.halo_bytes == 3 * 3 * 4 * part * 4
    hop_s = 3 * ALPHA + part * 4 * BETA  # a message for every peer
    compute_s = cost.forward_s + cost.backward_s
    assert cost.halo_s == pytest.approx(3 * max(0.0, 3 * hop_s - cluster.overlap * compute_s / 4), rel=1e-12)
    assert cost.halo_s > 0
    query, output, scores = 16 * 64, 16 * 64, 16 * 16
    assert cost.transient_bytes == 4 * (query + output + part + 4 * part + 3 * scores)
    assert cost.memory_bytes == 4 * (query + part + output)


def test_compute_on_one_part_hides_the_next_one() -> None:
    graph, cluster = ringed(attending(8192)), machine(4)
    assert AnalyticModel(graph, cluster).layer_cost(graph["attention0"], (Dim.Q, Dim.Q)).halo_s == 0
    alone = replace(cluster, overlap=0.0)
    assert AnalyticModel(graph, alone).layer_cost(graph["attention0"], (Dim.Q, Dim.Q)).halo_s > 0


def test_nothing_goes_round_where_queries_are_whole() -> None:
    graph, cluster = ringed(attending(64, batch=4)), machine(4)
    by_sample = (Dim.N, Dim.N)
    passed, gathered = (
        AnalyticModel(made, cluster).layer_cost(made["attention0"], by_sample)
        for made in (graph, with_rings(graph, ()))
    )
    assert passed == gathered


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (2, 4)])
@pytest.mark.parametrize("tokens", [66, 2048])
def test_both_evaluators_and_both_simulations_agree(sizes: tuple[int, ...], tokens: int) -> None:
    graph, cluster = ringed(attending(tokens)), machine(*sizes)
    model, slicings = AnalyticModel(graph, cluster), by_token(graph, cluster)
    predicted = predicted_step(model, slicings)
    again = recost_terms(graph, cluster, slicings)
    assert again["halo_s"] == pytest.approx(predicted.seconds["halo"], rel=1e-12)
    assert sum(again.values()) == pytest.approx(predicted.additive_s, rel=1e-12)
    assert ManyPlans(model).simulated_s([slicings]) == pytest.approx(
        [simulate_step(model, slicings).seconds], rel=1e-12
    )
    assert sum(bytes_by_tier(model, slicings).values()) == predicted.bytes_moved


def test_a_plan_passes_keys_round_where_that_is_faster() -> None:
    long, short = (sw.plan(attending(tokens), machine(4), batch=1) for tokens in (8192, 512))
    assert long.training.rings == ("attention0",)
    assert long.slicings["attention0"] == (Dim.Q, Dim.Q)
    assert short.training.rings == ()
    gathered = AnalyticModel(attending(8192), machine(4))
    assert long.predicted.iteration_s < predicted_step(gathered, by_token(gathered.graph, machine(4))).iteration_s


def test_a_plan_passes_keys_round_where_nothing_fits_otherwise() -> None:
    """On 16 devices a ring holds two sixteenths of 512 keys."""
    graph, cluster, asked = attending(512), machine(16), {"batch": 1, "forbid": ["attention*=K"]}
    least = sw.plan(graph, cluster, objective="memory", **asked)  # type: ignore[arg-type]
    assert least.training.rings == ()
    limit = 0.9 * least.predicted.peak_memory_bytes
    found = sw.plan(graph, cluster, memory_limit=limit, **asked)  # type: ignore[arg-type]
    assert found.predicted.peak_memory_bytes <= limit
    assert found.training.rings == ("attention0",)


def test_scores_that_are_spelled_out_are_counted_where_keys_are_sliced() -> None:
    graph = attending(64)
    costs = [AnalyticModel(graph, machine(4)).layer_cost(graph["attention0"], (dim, dim)) for dim in (Dim.K, Dim.Q)]
    by_key = 64 * 64 + 2 * 16 * 64 + 64 * 64 + 3 * 64 * 16  # query, key and value, output, scores
    by_query = 16 * 64 + 2 * 64 * 64 + 16 * 64
    assert [cost.transient_bytes for cost in costs] == [4 * by_key, 4 * by_query]


def test_a_plan_file_names_its_rings_and_refuses_what_is_none() -> None:
    plan = sw.plan(attending(8192), machine(4), batch=1)
    fields = plan.to_dict()
    assert fields["rings"] == ["attention0"]
    again = Plan.from_dict(fields, "test")
    assert again.training.rings == ("attention0",)
    assert again.network() == attending(8192)
    assert sw.predict(again).iteration_s == plan.predicted.iteration_s
    edited = Plan.from_dict({**fields, "rings": ["conv0"]}, "test")
    with pytest.raises(PlanError, match="rings: the keys of conv0 cannot be passed round"):
        edited.check(edited.sized(edited.network()), machine(4).mesh)
