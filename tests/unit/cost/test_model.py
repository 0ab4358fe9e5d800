"""What layers and edges cost, in cases small enough to work out by hand."""

from dataclasses import replace
from math import prod

import pytest

from slicewise.cost.compute import ITEM_BYTES, shard
from slicewise.cost.model import CostModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import statistics_axes
from tests.builders import DEVICE, Net, machine, residual_net, small_cnn

PAIR = machine(2)
LATENCY_S, BYTES_PER_S = PAIR.tiers[0].latency_s, PAIR.tiers[0].bytes_per_s


def conv_graph(batch: int = 4) -> LayerGraph:
    net = Net()
    net.output(net.conv(net.conv(net.input(batch, 3, 8, 8), 8), 6))
    return net.graph


def test_a_halo_is_paid_forward_and_where_a_gradient_flows_back_again() -> None:
    """Two halves of 4 rows swap one border row each way: 4 samples x channels x 8 columns."""
    graph = conv_graph()
    model = CostModel(graph, PAIR)
    for name, channels, passes in (("conv0", 3, 1), ("conv1", 8, 2)):
        cost = model.layer_cost(graph[name], (Dim.H,))
        row_bytes = 4 * channels * 8 * ITEM_BYTES
        assert cost.halo_bytes == passes * 2 * row_bytes
        assert cost.halo_s == pytest.approx(passes * (LATENCY_S + row_bytes / BYTES_PER_S))


def test_weight_gradients_are_summed_over_samples() -> None:
    graph = conv_graph()
    cost = CostModel(graph, PAIR).layer_cost(graph["conv1"], (Dim.N,))
    weight_bytes = (6 * 8 * 9 + 6) * ITEM_BYTES
    assert cost.sync_bytes == 2 * weight_bytes  # each of two ranks sends half of it twice
    assert cost.sync_s == pytest.approx(2 * LATENCY_S + weight_bytes / BYTES_PER_S)


@pytest.mark.parametrize("dim", [Dim.F, Dim.C, None])
def test_weights_that_are_sliced_or_repeated_need_no_sync(dim: Dim | None) -> None:
    graph = conv_graph()
    cost = CostModel(graph, PAIR).layer_cost(graph["conv1"], (dim,))
    assert (cost.sync_s, cost.sync_bytes) == (0.0, 0)


def test_a_norm_merges_mean_and_deviation_over_the_axes_its_statistics_span() -> None:
    """2 numbers per channel gathered forward, 2 summed backward; 8 channels, 2 ranks."""
    graph = residual_net()
    model = CostModel(graph, PAIR)
    norm = graph["norm0"]
    cost = model.layer_cost(norm, (Dim.N,))
    message_bytes = 2 * 8 * ITEM_BYTES
    assert cost.reduce_bytes == 2 * message_bytes + 2 * message_bytes
    assert cost.reduce_s == pytest.approx(
        (LATENCY_S + message_bytes / BYTES_PER_S) + (2 * LATENCY_S + message_bytes / BYTES_PER_S)
    )
    assert model.layer_cost(norm, (Dim.F,)).reduce_s == 0.0


def test_a_norm_without_gradients_merges_forward_only() -> None:
    net = Net()
    norm = net.norm(net.input(4, 8, 8, 8))
    net.layers[-1] = replace(net[norm], weights=())
    net.output(net.conv(norm, 4))
    message_bytes = 2 * 8 * 2 * ITEM_BYTES
    cost = CostModel(net.graph, PAIR).layer_cost(net[norm], (Dim.N,))
    assert cost.reduce_s == pytest.approx(LATENCY_S + message_bytes / 2 / BYTES_PER_S)


def test_statistics_are_merged_over_samples_only_where_they_span_them() -> None:
    net = Net()
    source = net.input(4, 8, 8, 8)
    batch_norm, instance_norm = net[net.norm(source)], net[net.norm(source, instance=True)]
    assert statistics_axes(batch_norm, (Dim.N, Dim.H, Dim.F)) == (0, 1)
    assert statistics_axes(instance_norm, (Dim.N, Dim.H, Dim.F)) == (1,)


def test_memory_holds_weights_their_gradients_and_the_output_for_backward() -> None:
    graph = small_cnn()
    model = CostModel(graph, PAIR)
    conv = graph["conv0"]
    weights, output = 8 * 27 + 8, prod(conv.shape)
    assert model.layer_cost(conv, (None,)).memory_bytes == ITEM_BYTES * (2 * weights + output)
    assert model.layer_cost(conv, (Dim.N,)).memory_bytes == ITEM_BYTES * (2 * weights + output // 2)
    assert model.layer_cost(conv, (Dim.F,)).memory_bytes == ITEM_BYTES * (weights + output // 2)
    for name in ("elementwise0", "flatten0", "output0"):  # in place, or no copy
        assert model.layer_cost(graph[name], (Dim.N,)).memory_bytes == 0


def test_the_first_weight_layer_returns_no_gradient_to_its_input() -> None:
    graph = conv_graph()
    model = CostModel(graph, PAIR)
    assert not model.wants_input_gradient(graph["conv0"])
    assert model.wants_input_gradient(graph["conv1"])
    for name, share in (("conv0", 0.5), ("conv1", 1.0)):
        part = shard(graph[name], (None,), PAIR.mesh)
        both_s = model.compute.backward_s(graph[name], part, True)
        assert model.layer_cost(graph[name], (None,)).backward_s == pytest.approx(share * both_s)


def test_layers_before_the_first_weight_cost_nothing_backward() -> None:
    net = Net()
    net.output(net.conv(net.pool(net.input(4, 3, 8, 8)), 4))
    model = CostModel(net.graph, PAIR)
    cost = model.layer_cost(net["pool0"], (None,))
    assert cost.backward_s == 0.0
    assert cost.forward_s > DEVICE.kernel_s


def test_an_edge_pays_for_values_and_for_gradients() -> None:
    """F then F: gather the channels forward; reduce-scatter the partial gradients backward."""
    graph = conv_graph()
    model = CostModel(graph, PAIR)
    tensor_bytes = 4 * 8 * 8 * 8 * ITEM_BYTES
    cost = model.edge_cost(graph["conv1"], 0, (Dim.F,), (Dim.F,))
    assert cost.transfer_bytes == tensor_bytes + tensor_bytes
    assert cost.transfer_s == pytest.approx(2 * (LATENCY_S + tensor_bytes / 2 / BYTES_PER_S))
    assert cost.total_s == cost.transfer_s


def test_an_edge_from_the_input_pays_for_values_only() -> None:
    graph = conv_graph()
    model = CostModel(graph, PAIR)
    gathered_bytes = 4 * 3 * 8 * 8 * ITEM_BYTES
    assert model.edge_cost(graph["conv0"], 0, (Dim.N,), (Dim.F,)).transfer_bytes == gathered_bytes


@pytest.mark.parametrize(("before", "after"), [(Dim.N, Dim.N), (Dim.H, Dim.H), (Dim.F, Dim.C), (None, None)])
def test_slicings_that_match_move_nothing(before: Dim | None, after: Dim | None) -> None:
    graph = conv_graph()
    cost = CostModel(graph, PAIR).edge_cost(graph["conv1"], 0, (before,), (after,))
    assert (cost.transfer_s, cost.transfer_bytes) == (0.0, 0)


def test_cutting_a_whole_tensor_is_free_and_its_gradient_is_gathered() -> None:
    graph = conv_graph()
    cost = CostModel(graph, PAIR).edge_cost(graph["conv1"], 0, (None,), (Dim.C,))
    assert cost.transfer_bytes == 4 * 8 * 8 * 8 * ITEM_BYTES


def test_a_plans_costs_are_its_layers_with_the_edges_into_them() -> None:
    graph = residual_net()
    model = CostModel(graph, PAIR)
    slicings = {layer.name: (Dim.N,) for layer in graph} | {"conv1": (Dim.F,)}
    costs = model.plan_costs(slicings)
    assert list(costs) == [layer.name for layer in graph]
    assert costs["conv1"] == model.layer_cost(graph["conv1"], (Dim.F,)) + model.edge_cost(
        graph["conv1"], 0, (Dim.N,), (Dim.F,)
    )
    assert costs["norm0"].transfer_s > 0
    assert costs["elementwise0"].transfer_s == 0
