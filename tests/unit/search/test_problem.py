"""Equal layers share a table; layers that only look alike do not."""

import numpy as np
import pytest

from slicewise.cost.model import CostModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from slicewise.search.problem import Problem, cost_edges, cost_layers
from tests.builders import Net, machine


def lookalikes() -> LayerGraph:
    """Convolutions, poolings and norms of one shape: before the first weight and after it, over samples and not."""
    net = Net()
    last = net.pool(net.input(4, 8, 8, 8), kernel=3, stride=1, padding=1)
    for _ in range(3):
        last = net.conv(last, 8)
    last = net.pool(last, kernel=3, stride=1, padding=1)
    net.output(net.norm(net.norm(last, instance=True)))
    return net.graph


def test_every_layers_table_is_its_own_cost() -> None:
    model = CostModel(lookalikes(), machine(2, 2))
    options, vectors = cost_layers(model, Space())
    for layer, slicings, vector in zip(model.graph, options, vectors, strict=True):
        expected = [model.layer_cost(layer, slicing).total_s for slicing in slicings]
        assert vector.tolist() == expected


def test_every_edges_table_is_its_own_cost() -> None:
    model = CostModel(lookalikes(), machine(4))
    options, _ = cost_layers(model, Space(dims_per_layer=2, dims_per_tier=2))
    for (producer, consumer), matrix in cost_edges(model, options).items():
        layer = model.graph.layers[consumer]
        expected = [
            [model.edge_cost(layer, 0, before, after).total_s for after in options[consumer]]
            for before in options[producer]
        ]
        assert np.allclose(matrix, expected, rtol=1e-9, atol=0)


def test_equal_layers_are_costed_once() -> None:
    model = CostModel(lookalikes(), machine(2))
    vectors = dict(zip((layer.name for layer in model.graph), cost_layers(model, Space())[1], strict=True))
    assert vectors["conv1"] is vectors["conv2"]
    assert vectors["conv0"] is not vectors["conv1"]  # it returns no gradient to its input
    assert vectors["norm0"] is not vectors["norm1"]


def test_a_tensor_read_twice_by_one_layer_moves_twice() -> None:
    net = Net()
    fork = net.fork(net.conv(net.input(4, 3, 8, 8), 8))
    net.output(net.add(fork, fork))
    model = CostModel(net.graph, machine(2))
    options, _ = cost_layers(model, Space())
    index = net.graph.index
    pair = (index["fork0"], index["elementwise0"])
    before, after = options[pair[0]].index((Dim.N,)), options[pair[1]].index((Dim.F,))
    once_s = model.edge_cost(net["elementwise0"], 0, (Dim.N,), (Dim.F,)).total_s
    assert cost_edges(model, options)[pair][before, after] == pytest.approx(2 * once_s)


def test_plans_widen_the_choices_of_their_layers() -> None:
    model = CostModel(lookalikes(), machine(2, 2))
    narrow = Space(dims_per_layer=1, dims_per_tier=1)
    plan = {layer.name: (Dim.N, Dim.N) for layer in model.graph} | {"conv0": (Dim.N, Dim.H)}
    without, _ = cost_layers(model, narrow)
    widened, _ = cost_layers(model, narrow, [plan])
    conv = model.graph.index["conv0"]
    assert set(widened[conv]) - set(without[conv]) == {(Dim.N, Dim.H)}
    assert widened[conv + 1] == without[conv + 1]


def test_a_restricted_problem_keeps_what_its_choices_cost() -> None:
    problem = Problem(
        vectors=(np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])),
        matrices={(0, 1): np.arange(6.0).reshape(2, 3)},
    )
    smaller = problem.restricted([np.array([1]), np.array([0, 2])])
    assert smaller.cost([0, 1]) == problem.cost([1, 2]) == 2 + 5 + 5
