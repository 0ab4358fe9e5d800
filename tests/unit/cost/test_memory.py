"""What one device holds, counted by hand on small networks."""

from dataclasses import replace
from math import prod

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.training import Training
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from tests.builders import DEVICE, Net, machine
from tests.pricing import cost_of

PAIR = replace(machine(2), device=replace(DEVICE, reduced_flops_per_s={"bf16": 1e13, "fp16": 1e13, "tf32": 5e12}))


def network() -> LayerGraph:
    """conv, norm, relu, pool, relu, flatten, linear."""
    net = Net()
    last = net.pool(net.relu(net.norm(net.conv(net.input(4, 3, 8, 8), 8))))
    net.output(net.linear(net.flatten(net.relu(last)), 10))
    return net.graph


X = 4 * 3 * 8 * 8  # items of the input
Y = 4 * 8 * 8 * 8  # after the convolution, the norm, the first relu
Z = 4 * 8 * 4 * 4  # after the pooling
CONV, NORM, LINEAR = 8 * 3 * 9 + 8, 2 * 8, 10 * 128 + 10
WEIGHTS = CONV + NORM + LINEAR


def kept(graph: LayerGraph, name: str, slicing: Slicing = (None,), **options: object) -> int:
    training = Training(**options)  # type: ignore[arg-type]
    return AnalyticModel(graph, PAIR, training).layer_cost(graph[name], slicing).memory_bytes


def total(graph: LayerGraph, slicing: Slicing = (None,), **options: object) -> Cost:
    model = AnalyticModel(graph, PAIR, Training(**options))  # type: ignore[arg-type]
    return cost_of(model, {layer.name: slicing for layer in graph})


def test_what_backward_reads_is_kept_where_it_is_read() -> None:
    graph = network()
    expected = {
        "input0": 0,
        "conv0": 4 * (2 * CONV + X),
        "norm0": 4 * (2 * NORM + Y),
        "elementwise0": 0,  # the pooling keeps its output
        "pool0": 4 * Y,
        "elementwise1": 0,  # so does the linear layer, behind the flatten
        "flatten0": 0,
        "linear0": 4 * (2 * LINEAR + Z),
        "output0": 0,
    }
    assert {layer.name: kept(graph, layer.name) for layer in graph} == expected


def test_slices_keep_parts_and_repeated_work_keeps_all() -> None:
    graph = network()
    assert kept(graph, "conv0", (Dim.N,)) == 4 * (2 * CONV + X // 2)
    assert kept(graph, "conv0", (Dim.F,)) == 4 * (CONV + X)  # half the filters read the whole input
    assert kept(graph, "conv0", (Dim.H,)) == 4 * (2 * CONV + X // 2)
    assert kept(graph, "linear0", (Dim.C,)) == 4 * (2 * (10 * 64 + 10) + Z // 2)


def test_uneven_slices_keep_the_largest_part() -> None:
    graph = network().with_batch(3)
    assert kept(graph, "norm0", (Dim.N,)) == 4 * (2 * NORM + 2 * 8 * 8 * 8)


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 2), ("momentum", 3), ("adam", 4)])
def test_weights_come_with_their_gradients_and_the_optimizers_state(optimizer: str, copies: int) -> None:
    outputs = X + 2 * Y + Z
    assert total(network(), optimizer=optimizer).memory_bytes == 4 * (copies * WEIGHTS + outputs)


@pytest.mark.parametrize(("dtype", "item_bytes", "copy_bytes"), [("tf32", 4, 0), ("bf16", 2, 2), ("fp16", 2, 2)])
def test_narrow_items_take_fewer_bytes_and_a_copy_of_the_weights(dtype: str, item_bytes: int, copy_bytes: int) -> None:
    found = total(network(), dtype=dtype)
    assert found.memory_bytes == (8 + copy_bytes) * WEIGHTS + item_bytes * (X + 2 * Y + Z)
    assert found.transient_bytes == item_bytes * 2 * Y


def test_recomputing_keeps_what_products_give_and_nothing_else() -> None:
    """From the convolution's output norm, relu and pooling run again; nothing reads the linear layer's."""
    graph = network()
    assert kept(graph, "conv0", recompute=True) == 4 * (2 * CONV + Y)
    assert kept(graph, "linear0", recompute=True) == 4 * 2 * LINEAR
    assert total(graph, recompute=True).memory_bytes == 4 * (2 * WEIGHTS + Y)


def test_all_options_at_once() -> None:
    found = total(network(), (Dim.N,), dtype="bf16", optimizer="adam", recompute=True)
    assert found.memory_bytes == (4 * 4 + 2) * WEIGHTS + 2 * Y // 2


def test_a_running_layer_has_all_its_inputs_and_its_output() -> None:
    net = Net()
    source = net.conv(net.input(4, 3, 8, 8), 8)
    fork = net.fork(source)
    net.output(net.add(net.conv(fork, 8), fork))
    model = AnalyticModel(net.graph, PAIR)
    assert model.layer_cost(net["elementwise0"], (Dim.N,)).transient_bytes == 4 * 3 * Y // 2
    plan: dict[str, Slicing] = {layer.name: (Dim.N,) for layer in net.graph}
    found = cost_of(model, plan)
    assert found.peak_memory_bytes == found.memory_bytes + 4 * 3 * Y // 2


def test_an_output_that_no_reader_keeps_is_kept_by_the_function_itself_in_place_or_not() -> None:
    """conv, relu, and only a sum reads it."""
    net = Net()
    one, other = net.relu(net.conv(net.input(4, 3, 8, 8), 8)), net.relu(net.conv(net.input(4, 3, 8, 8), 8))
    net.layers[-1] = replace(net[other], options={})
    net.output(net.add(one, other))
    assert kept(net.graph, one) == kept(net.graph, other) == 4 * Y
    assert kept(net.graph, "elementwise2") == 0  # a sum needs neither of its inputs
    assert prod(net.shape(one)) == Y


def test_products_of_two_keep_both_and_attention_its_output_where_nobody_else_does() -> None:
    net = Net()
    heads = net.fork(net.conv(net.input(4, 3, 8, 8), 8))
    mixed = net.attention(heads, heads, heads)
    net.output(net.matmul(mixed, heads))
    assert kept(net.graph, "matmul0") == 4 * 2 * Y
    assert kept(net.graph, "attention0") == 4 * 3 * Y  # the product keeps its output
    assert kept(net.graph, "attention0", (Dim.Q,)) == 4 * (Y // 2 + 2 * Y)  # half of the queries look at all keys
    net.layers[-2:] = []
    net.output(net.add(mixed, heads))
    assert kept(net.graph, "attention0") == 4 * 4 * Y


def without_training(layer: Layer) -> Layer:
    return replace(layer, weights=tuple(replace(weight, trained=False) for weight in layer.weights))


def test_layers_before_the_first_trained_weight_keep_their_weights_and_nothing_else() -> None:
    graph = network()
    frozen = {"conv0", "norm0"}
    layers = tuple(without_training(layer) if layer.name in frozen else layer for layer in graph)
    mostly_frozen = LayerGraph(name="frozen", layers=layers)
    assert kept(mostly_frozen, "conv0", optimizer="adam") == 4 * CONV
    assert kept(mostly_frozen, "norm0", optimizer="adam") == 4 * NORM
    assert kept(mostly_frozen, "pool0") == 0
    assert kept(mostly_frozen, "linear0") == 4 * (2 * LINEAR + Z)


def test_a_shared_weight_is_held_once() -> None:
    graph = network()
    again = tuple(replace(weight, shared=True, again=True) for weight in graph["linear0"].weights)
    layers = tuple(replace(layer, weights=again) if layer.name == "linear0" else layer for layer in graph)
    shared = LayerGraph(name="shared", layers=layers)
    assert kept(shared, "linear0", dtype="bf16") == 2 * Z
