"""What layers and edges cost, in cases small enough to work out by hand."""

from dataclasses import replace

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.compute import shares
from slicewise.cost.model import CostModel
from slicewise.cost.recost import recost_terms
from slicewise.cost.training import Training
from slicewise.graph.chunks import with_local_statistics
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices
from slicewise.partition.layout import Slicing, statistics_axes
from tests.builders import DEVICE, Net, machine, residual_net

ITEM_BYTES = 4
PAIR = machine(2)
LATENCY_S, BYTES_PER_S = PAIR.tiers[0].latency_s, PAIR.tiers[0].bytes_per_s


def conv_graph(batch: int = 4) -> LayerGraph:
    net = Net()
    net.output(net.conv(net.conv(net.input(batch, 3, 8, 8), 8), 6))
    return net.graph


def test_a_halo_is_paid_forward_and_where_a_gradient_flows_back_again() -> None:
    """Two halves of 4 rows swap one border row each way: 4 samples x channels x 8 columns."""
    graph = conv_graph()
    model = AnalyticModel(graph, PAIR)
    for name, channels, passes in (("conv0", 3, 1), ("conv1", 8, 2)):
        cost = model.layer_cost(graph[name], (Dim.H,))
        row_bytes = 4 * channels * 8 * ITEM_BYTES
        assert cost.halo_bytes == passes * 2 * row_bytes
        assert cost.halo_s == pytest.approx(passes * (LATENCY_S + row_bytes / BYTES_PER_S))


def test_weight_gradients_are_summed_over_samples() -> None:
    graph = conv_graph()
    cost = AnalyticModel(graph, PAIR).layer_cost(graph["conv1"], (Dim.N,))
    weight_bytes = (6 * 8 * 9 + 6) * ITEM_BYTES
    assert cost.sync_bytes == 2 * weight_bytes  # each of two ranks sends half of it twice
    assert cost.sync_s == pytest.approx(2 * LATENCY_S + weight_bytes / BYTES_PER_S)


@pytest.mark.parametrize("dim", [Dim.F, Dim.C, None])
def test_weights_that_are_sliced_or_repeated_need_no_sync(dim: Dim | None) -> None:
    graph = conv_graph()
    cost = AnalyticModel(graph, PAIR).layer_cost(graph["conv1"], (dim,))
    assert (cost.sync_s, cost.sync_bytes) == (0.0, 0)


def test_a_norm_merges_mean_and_deviation_over_the_axes_its_statistics_span() -> None:
    """2 numbers per channel gathered forward, 2 summed backward; 8 channels, 2 ranks."""
    graph = residual_net()
    model = AnalyticModel(graph, PAIR)
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
    cost = AnalyticModel(net.graph, PAIR).layer_cost(net[norm], (Dim.N,))
    assert cost.reduce_s == pytest.approx(LATENCY_S + message_bytes / 2 / BYTES_PER_S)


def test_statistics_are_merged_over_samples_only_where_they_span_them() -> None:
    net = Net()
    source = net.input(4, 8, 8, 8)
    batch_norm, instance_norm = net[net.norm(source)], net[net.norm(source, instance=True)]
    assert statistics_axes(batch_norm, (Dim.N, Dim.H, Dim.F)) == (0, 1)
    assert statistics_axes(instance_norm, (Dim.N, Dim.H, Dim.F)) == (1,)


@pytest.mark.parametrize(
    ("slicing", "ranks", "values"),
    [((Dim.H, Dim.H), 4, 4 * 8), ((Dim.N, Dim.H), 2, 2 * 8), ((Dim.H, Dim.F), 2, 4 * 4), ((Dim.N, Dim.F), 1, 0)],
)
def test_a_local_norm_merges_the_statistics_of_the_chunks_it_holds(slicing: Slicing, ranks: int, values: int) -> None:
    """64 samples and 8 channels on 4 devices are 4 chunks; every rank sends 2 numbers per chunk and channel it has."""
    graph = with_local_statistics(residual_net(64), 4)
    cost = AnalyticModel(graph, machine(4)).layer_cost(graph["norm0"], slicing)
    message_bytes = 2 * values * ITEM_BYTES
    assert cost.reduce_bytes == 4 * (ranks - 1) * message_bytes * (1 + 2 / ranks)
    gather_s = (ranks - 1) * (LATENCY_S + message_bytes / BYTES_PER_S)
    reduce_s = 2 * (ranks - 1) * (LATENCY_S + message_bytes / ranks / BYTES_PER_S)
    assert cost.reduce_s == pytest.approx(gather_s + reduce_s)


def test_a_norm_in_eval_mode_merges_nothing() -> None:
    graph = residual_net()
    norm = graph["norm0"]
    resting = replace(norm, options={**norm.options, "arguments": {"training": False}})
    frozen = replace(graph, layers=tuple(resting if layer is norm else layer for layer in graph))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    assert AnalyticModel(frozen, PAIR).layer_cost(resting, (Dim.N,)).reduce_bytes == 0
    assert recost_terms(frozen, PAIR, slicings)["reduce_s"] == 0.0 < recost_terms(graph, PAIR, slicings)["reduce_s"]


def one_pass_s(model: CostModel, layer: Layer) -> float:
    """Backward for one operand of the whole layer."""
    part = shares(layer, Choices.of([(None,)], model.cluster.mesh))
    return float(model.compute.backward_s(layer, part, ("backward_input",))[0])


def test_the_first_weight_layer_returns_no_gradient_to_its_input() -> None:
    graph = conv_graph()
    model = AnalyticModel(graph, PAIR)
    assert not model.wants_input_gradient(graph["conv0"])
    assert model.wants_input_gradient(graph["conv1"])
    for name, passes in (("conv0", 1), ("conv1", 2)):
        expected_s = passes * one_pass_s(model, graph[name])
        assert model.layer_cost(graph[name], (None,)).backward_s == pytest.approx(expected_s)


def frozen(layer: Layer) -> Layer:
    return replace(layer, weights=tuple(replace(weight, trained=False) for weight in layer.weights))


def test_a_frozen_product_computes_the_gradient_of_its_input_alone() -> None:
    graph = conv_graph()
    layers = tuple(frozen(layer) if layer.name == "conv1" else layer for layer in graph)
    model = AnalyticModel(LayerGraph(name="frozen", layers=layers), PAIR)
    layer = model.graph["conv1"]
    cost = model.layer_cost(layer, (Dim.N,))
    assert (cost.update_s, cost.sync_s, cost.sync_bytes) == (0.0, 0.0, 0)
    assert model.layer_cost(layer, (None,)).backward_s == pytest.approx(one_pass_s(model, layer))


def product_of_two(trained: bool) -> LayerGraph:
    """`NC, FC -> NF`: what one linear layer gives times what another gives, as attention multiplies."""
    net = Net()
    source = net.fork(net.input(8, 6))
    one, other = net.linear(source, 6), net.linear(source, 6)
    if not trained:
        net.layers[-1] = frozen(net.layers[-1])
    net.layers.append(
        Layer(
            name="matmul",
            kind=Kind.LINEAR,
            inputs=(one, other),
            input_shapes=((8, 6), (8, 6)),
            input_dims=("NC", "FC"),
            shape=(8, 8),
            dims="NF",
        )
    )
    net.output("matmul")
    return net.graph


@pytest.mark.parametrize(("trained", "passes"), [(True, 2), (False, 1)])
def test_a_product_of_two_computed_operands_computes_the_gradients_that_are_wanted(trained: bool, passes: int) -> None:
    model = AnalyticModel(product_of_two(trained), PAIR)
    layer = model.graph["matmul"]
    assert model.layer_cost(layer, (None,)).backward_s == pytest.approx(passes * one_pass_s(model, layer))


def test_layers_before_the_first_weight_cost_nothing_backward() -> None:
    net = Net()
    net.output(net.conv(net.pool(net.input(4, 3, 8, 8)), 4))
    model = AnalyticModel(net.graph, PAIR)
    cost = model.layer_cost(net["pool0"], (None,))
    assert cost.backward_s == 0.0
    assert cost.forward_s > DEVICE.kernel_s


def test_an_edge_pays_for_values_and_for_gradients() -> None:
    """F then F: gather the channels forward; reduce-scatter the partial gradients backward."""
    graph = conv_graph()
    model = AnalyticModel(graph, PAIR)
    tensor_bytes = 4 * 8 * 8 * 8 * ITEM_BYTES
    cost = model.edge_cost(graph["conv1"], 0, (Dim.F,), (Dim.F,))
    assert cost.transfer_bytes == tensor_bytes + tensor_bytes
    assert cost.transfer_s == pytest.approx(2 * (LATENCY_S + tensor_bytes / 2 / BYTES_PER_S))
    assert cost.total_s == cost.transfer_s


def test_an_edge_from_the_input_pays_for_values_only() -> None:
    graph = conv_graph()
    model = AnalyticModel(graph, PAIR)
    gathered_bytes = 4 * 3 * 8 * 8 * ITEM_BYTES
    assert model.edge_cost(graph["conv0"], 0, (Dim.N,), (Dim.F,)).transfer_bytes == gathered_bytes


@pytest.mark.parametrize(("before", "after"), [(Dim.N, Dim.N), (Dim.H, Dim.H), (Dim.F, Dim.C), (None, None)])
def test_slicings_that_match_move_nothing(before: Dim | None, after: Dim | None) -> None:
    graph = conv_graph()
    cost = AnalyticModel(graph, PAIR).edge_cost(graph["conv1"], 0, (before,), (after,))
    assert (cost.transfer_s, cost.transfer_bytes) == (0.0, 0)


def test_cutting_a_whole_tensor_is_free_and_its_gradient_is_gathered() -> None:
    graph = conv_graph()
    cost = AnalyticModel(graph, PAIR).edge_cost(graph["conv1"], 0, (None,), (Dim.C,))
    assert cost.transfer_bytes == 4 * 8 * 8 * 8 * ITEM_BYTES


def test_a_plans_costs_are_its_layers_with_the_edges_into_them() -> None:
    graph = residual_net()
    model = AnalyticModel(graph, PAIR)
    slicings = {layer.name: (Dim.N,) for layer in graph} | {"conv1": (Dim.F,)}
    costs = model.plan_costs(slicings)
    assert list(costs) == [layer.name for layer in graph]
    assert costs["conv1"] == model.layer_cost(graph["conv1"], (Dim.F,)) + model.edge_cost(
        graph["conv1"], 0, (Dim.N,), (Dim.F,)
    )
    assert costs["norm0"].transfer_s > 0
    assert costs["elementwise0"].transfer_s == 0


def detached_branch() -> LayerGraph:
    """A fork whose second reader stops gradients."""
    net = Net()
    trunk = net.fork(net.conv(net.input(4, 3, 8, 8), 8))
    stopped = net.pool(trunk, kernel=3, stride=1, padding=1)
    net.layers[-1] = replace(net[stopped], options={"differentiable": False})
    net.output(net.add(net.conv(trunk, 8), stopped))
    return net.graph


def test_no_gradient_goes_back_from_what_is_detached() -> None:
    graph = detached_branch()
    model = AnalyticModel(graph, PAIR)
    pool, conv = graph["pool0"], graph["conv1"]
    tensor_bytes = 4 * 8 * 8 * 8 * ITEM_BYTES
    # forward, each rank cuts out its samples; only their gradients would have to be gathered
    detached, trained = (model.edge_cost(layer, 0, (None,), (Dim.N,)) for layer in (pool, conv))
    assert (detached.transfer_s, detached.transfer_bytes) == (0.0, 0)
    assert trained.transfer_bytes == tensor_bytes
    assert trained.transfer_s > 0
    row_bytes = 4 * 8 * 8 * ITEM_BYTES
    assert model.layer_cost(pool, (Dim.H,)).halo_bytes == 2 * row_bytes
    assert model.layer_cost(conv, (Dim.H,)).halo_bytes == 2 * 2 * row_bytes
    assert model.layer_cost(pool, (None,)).backward_s == 0.0


def shared_twice() -> LayerGraph:
    """Two linear layers with one matrix, each with a bias of its own."""
    net = Net()
    net.output(net.linear(net.linear(net.input(4, 8), 8), 8))
    first, second = net["linear0"], net["linear1"]
    matrix = replace(first.weights[0], shared=True)
    layers = {
        "linear0": replace(first, weights=(matrix, first.weights[1])),
        "linear1": replace(second, weights=(replace(matrix, again=True), second.weights[1])),
    }
    return LayerGraph(name="shared", layers=tuple(layers.get(layer.name, layer) for layer in net.layers))


def test_a_shared_weight_is_summed_where_it_is_first_read() -> None:
    graph = shared_twice()
    model = AnalyticModel(graph, PAIR)
    first, second = (model.layer_cost(graph[name], (Dim.N,)) for name in ("linear0", "linear1"))
    assert first.sync_bytes == 2 * (64 + 8) * ITEM_BYTES
    assert second.sync_bytes == 2 * 8 * ITEM_BYTES
    assert second.sync_s == pytest.approx(2 * LATENCY_S + 8 * ITEM_BYTES / BYTES_PER_S)
    assert model.alike[graph.index["linear0"]] != model.alike[graph.index["linear1"]]


def test_narrow_items_move_fewer_bytes_and_weights_as_many() -> None:
    graph = residual_net()
    cluster = replace(PAIR, device=replace(DEVICE, reduced_flops_per_s={"bf16": 1e13}))
    wide, narrow = (AnalyticModel(graph, cluster, Training(dtype=dtype)) for dtype in ("fp32", "bf16"))
    conv, norm = graph["conv1"], graph["norm0"]
    one, half = (model.edge_cost(conv, 0, (Dim.F,), (Dim.F,)) for model in (wide, narrow))
    assert half.transfer_bytes * 2 == one.transfer_bytes
    assert half.transfer_s - 2 * LATENCY_S == pytest.approx((one.transfer_s - 2 * LATENCY_S) / 2)
    for layer, slicing in ((conv, (Dim.H,)), (conv, (Dim.N,)), (norm, (Dim.N,))):
        one, half = (model.layer_cost(layer, slicing) for model in (wide, narrow))
        assert half.halo_bytes * 2 == one.halo_bytes
        assert (half.sync_bytes, half.sync_s) == (one.sync_bytes, one.sync_s)
        assert (half.reduce_bytes, half.reduce_s) == (one.reduce_bytes, one.reduce_s)


def test_layers_that_differ_in_what_they_cost_or_allow_are_not_alike() -> None:
    """Before the first weight, after it, frozen, marked as shared, or reading a buffer."""
    net = Net()
    last = net.input(4, 8, 8, 8)
    for _ in range(6):
        last = net.conv(last, 8)
    net.output(last)
    graph = net.graph
    third, fourth, fifth = graph["conv2"], graph["conv3"], graph["conv4"]
    changed = {
        "conv2": frozen(third),
        "conv3": replace(fourth, weights=tuple(replace(weight, shared=True) for weight in fourth.weights)),
        "conv4": replace(fifth, buffers=(replace(fifth.weights[1], name="scale", trained=False),)),
    }
    layers = tuple(changed.get(layer.name, layer) for layer in graph)
    model = AnalyticModel(LayerGraph(name="lookalikes", layers=layers), PAIR)
    convs = [key for key, layer in zip(model.alike, model.graph, strict=True) if layer.kind is Kind.CONV]
    assert len(set(convs[:5])) == 5
    assert convs[5] == convs[1]
