import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from slicewise.search.baselines import baseline_slicings
from slicewise.search.optimum import best_slicings
from slicewise.search.solver import Settings
from tests.builders import Net, machine, residual_net, small_cnn
from tests.pricing import cost_of


def volume() -> LayerGraph:
    net = Net()
    last = net.input(1, 8, 64, 64, 64)
    for _ in range(3):
        last = net.conv(last, 8)
    net.output(last)
    return net.graph


def test_a_baseline_outside_the_space_widens_it() -> None:
    """Cubes cut three dims in one tier; the default space allows two, and would be left with dearer slabs."""
    model = AnalyticModel(volume(), machine(8))
    known, _ = baseline_slicings(model)
    narrow, _ = best_slicings(model, Space(), {})
    best, certificate = best_slicings(model, Space(), known)
    assert cost_of(model, best).total_s <= cost_of(model, known["spatial"]).total_s < cost_of(model, narrow).total_s
    assert certificate.space == f"{Space()}; and the slicings of filter, spatial"


def test_the_certificate_says_what_was_searched() -> None:
    model = AnalyticModel(small_cnn(), machine(2))
    _, certificate = best_slicings(model, Space(), {})
    assert certificate.objective == "additive_s"
    assert certificate.space == str(Space())
    assert certificate.optimal
    assert certificate.gap == 0
    assert certificate.layers == len(model.graph)
    assert certificate.surviving <= certificate.configurations <= certificate.space_size
    assert certificate.space_size == pytest.approx(10**certificate.space_log10)
    assert certificate.constraints == ()
    assert certificate.remaining_nodes == 2
    assert set(certificate.to_dict()) >= {"method", "tables_s", "search_s", "surviving_largest", "constraints"}


def test_both_searches_agree() -> None:
    for graph in (small_cnn(), residual_net()):
        model = AnalyticModel(graph, machine(2))
        known, _ = baseline_slicings(model)
        costs = [
            cost_of(model, best_slicings(model, Space(), known, settings=Settings(search=search))[0]).total_s
            for search in ("elimination", "exhaustive")
        ]
        assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_filters_and_channels_pair_up_where_weights_are_heavy() -> None:
    """The Megatron pair, found and not prescribed: nothing moves between the two layers."""
    net = Net()
    hidden = net.relu(net.linear(net.input(2, 4096), 4096))
    net.output(net.linear(hidden, 4096))
    model = AnalyticModel(net.graph, machine(2))
    best, _ = best_slicings(model, Space(), {})
    assert (best["linear0"], best["elementwise0"], best["linear1"]) == ((Dim.F,), (Dim.F,), (Dim.C,))
    assert model.plan_costs(best)["elementwise0"].transfer_s == 0


def test_one_device_slices_nothing() -> None:
    model = AnalyticModel(small_cnn(), machine(1))
    best, _ = best_slicings(model, Space(), baseline_slicings(model)[0])
    assert set(best.values()) == {()}
    assert all(cost.communication_s == 0 for cost in model.plan_costs(best).values())
