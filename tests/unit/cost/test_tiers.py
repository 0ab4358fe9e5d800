import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.tiers import bytes_by_tier, sent_as_predicted, tier_names, tier_of_ranks
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.search.baselines import BASELINES
from tests.builders import dense_net, machine, residual_net, small_cnn


@pytest.mark.parametrize("graph", [small_cnn(batch=8), residual_net(batch=8), dense_net(batch=8)], ids=lambda g: g.name)
@pytest.mark.parametrize("name", [name for name in BASELINES if name != "owt" and "sequence" not in name])
def test_the_tiers_share_all_bytes_that_a_plan_moves(graph: LayerGraph, name: str) -> None:
    model = AnalyticModel(graph, machine(2, 2, 2))
    slicings = BASELINES[name](model)
    assert sum(bytes_by_tier(model, slicings).values()) == sum(
        c.bytes_moved for c in model.plan_costs(slicings).values()
    )


def test_what_stays_within_a_node_crosses_no_link_between_nodes() -> None:
    graph = small_cnn(batch=4)
    model = AnalyticModel(graph, machine(2, 2))
    inside = dict.fromkeys((layer.name for layer in graph), (Dim.N, Dim.N)) | {"linear0": (Dim.N, Dim.F)}
    by_filter = bytes_by_tier(model, inside)
    by_sample = bytes_by_tier(model, dict.fromkeys(inside, (Dim.N, Dim.N)))
    assert by_sample["tier1"] == 0
    assert by_filter["tier1"] > 0
    assert by_filter["tier0"] < by_sample["tier0"]


def test_a_group_counts_for_the_widest_tier_between_its_ranks() -> None:
    cluster = machine(2, 2, 2)
    names = tier_names(cluster)
    assert names == ("tier0", "tier1", "tier2")
    assert tier_of_ranks(cluster.mesh, names, [0, 1]) == "tier2"
    assert tier_of_ranks(cluster.mesh, names, [0, 2, 1, 3]) == "tier1"
    assert tier_of_ranks(cluster.mesh, names, [3, 4]) == "tier0"


def test_bytes_are_as_predicted_where_every_tiers_are() -> None:
    counted = {"bytes_moved": 3, "bytes_by_tier": {"inter": 1, "intra": 2}}
    assert sent_as_predicted(counted, dict(counted))
    assert sent_as_predicted(counted, {})  # nothing was predicted
    assert sent_as_predicted(counted, {"bytes_moved": 3})
    assert not sent_as_predicted(counted, {**counted, "bytes_moved": 4})
    assert not sent_as_predicted(counted, {**counted, "bytes_by_tier": {"inter": 2, "intra": 1}})
