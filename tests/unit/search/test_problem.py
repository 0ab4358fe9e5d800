"""Equal layers share a table; layers that only look alike do not."""

import numpy as np
import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices
from slicewise.partition.legal import Space
from slicewise.search.problem import Problem, edge_tables
from tests.builders import Net, machine
from tests.pricing import pool_of


def lookalikes() -> LayerGraph:
    """Convolutions, poolings and norms of one shape: before the first weight and after it, over samples and not."""
    net = Net()
    last = net.pool(net.input(4, 8, 8, 8), kernel=3, stride=1, padding=1)
    for _ in range(3):
        last = net.conv(last, 8)
    last = net.pool(last, kernel=3, stride=1, padding=1)
    net.output(net.norm(net.norm(last, instance=True)))
    return net.graph


def listed(choices: Choices) -> list[tuple[Dim | None, ...]]:
    return [choices[row] for row in range(len(choices))]


def test_every_layers_table_is_its_own_cost() -> None:
    model = AnalyticModel(lookalikes(), machine(2, 2))
    pool = pool_of(model)
    for layer, choices, vector in zip(model.graph, pool.choices, pool.vectors, strict=True):
        expected = [model.layer_cost(layer, slicing).total_s for slicing in listed(choices)]
        assert vector.tolist() == pytest.approx(expected, rel=1e-12)


def test_every_edges_table_is_its_own_cost() -> None:
    model = AnalyticModel(lookalikes(), machine(4))
    pool = pool_of(model, Space(dims_per_layer=1, dims_per_tier=1))
    for (producer, consumer), matrix in edge_tables(model, pool.choices).items():
        layer = model.graph.layers[consumer]
        expected = [
            [model.edge_cost(layer, 0, before, after).total_s for after in listed(pool.choices[consumer])]
            for before in listed(pool.choices[producer])
        ]
        assert np.allclose(matrix, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("first", "second"), [([3, 0], [1, 4, 5]), ([0, 1], [1, 0]), ([2, 1, 0], [2, 1, 0])], ids=["few", "turned", "both"]
)
def test_equal_layers_get_their_own_rows_of_one_table(first: list[int], second: list[int]) -> None:
    """Whichever choices they have left, and in whatever order."""
    model = AnalyticModel(lookalikes(), machine(4))
    pool = pool_of(model)
    full = edge_tables(model, pool.choices)
    index = model.graph.index
    one, two = index["conv1"], index["conv2"]
    kept = [np.arange(len(choices)) for choices in pool.choices]
    kept[one], kept[two] = np.array(first), np.array(second)
    tables = edge_tables(model, [choices.rows(keep) for choices, keep in zip(pool.choices, kept, strict=True)])
    for (i, j), matrix in tables.items():
        assert np.array_equal(matrix, full[i, j][np.ix_(kept[i], kept[j])])


def test_equal_layers_are_costed_once() -> None:
    model = AnalyticModel(lookalikes(), machine(2))
    seconds = dict(zip((layer.name for layer in model.graph), pool_of(model).seconds, strict=True))
    assert seconds["conv1"] is seconds["conv2"]
    assert seconds["conv0"] is not seconds["conv1"]  # it returns no gradient to its input
    assert seconds["norm0"] is not seconds["norm1"]


def test_a_tensor_read_twice_by_one_layer_moves_twice() -> None:
    net = Net()
    fork = net.fork(net.conv(net.input(4, 3, 8, 8), 8))
    net.output(net.add(fork, fork))
    model = AnalyticModel(net.graph, machine(2))
    pool = pool_of(model)
    pair = (net.graph.index["fork0"], net.graph.index["elementwise0"])
    before, after = pool.choices[pair[0]].find((Dim.N,)), pool.choices[pair[1]].find((Dim.F,))
    once_s = model.edge_cost(net["elementwise0"], 0, (Dim.N,), (Dim.F,)).total_s
    assert edge_tables(model, pool.choices)[pair][before, after] == pytest.approx(2 * once_s)


def test_a_restricted_problem_keeps_what_its_choices_cost() -> None:
    problem = Problem(
        vectors=(np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])),
        matrices={(0, 1): np.arange(6.0).reshape(2, 3)},
    )
    smaller = problem.restricted([np.array([1]), np.array([0, 2])])
    assert smaller.cost([0, 1]) == problem.cost([1, 2]) == 2 + 5 + 5


def test_edges_that_count_as_alike_cost_the_same_between_the_same_slicings() -> None:
    model = AnalyticModel(lookalikes(), machine(2, 2))
    choices = next(rows for rows in pool_of(model).choices if len(rows) > 1)
    found: dict[object, np.ndarray] = {}
    for _, consumer, slot in model.graph.edges:
        layer = model.graph.layers[consumer]
        seconds = model.edge_seconds(layer, slot, choices, choices)
        assert np.array_equal(found.setdefault(model.edge_likeness(layer, slot), seconds), seconds)
    assert len(found) < len(model.graph.edges)


def test_a_table_keeps_its_name_where_equal_nodes_keep_the_same_choices() -> None:
    matrix = np.arange(9.0).reshape(3, 3)
    chain = Problem(vectors=(np.zeros(3),) * 4, matrices={(0, 1): matrix, (1, 2): matrix, (2, 3): matrix})
    few, all_of = np.array([0, 2]), np.arange(3)
    cut = chain.restricted([few, few, few, all_of])
    assert cut.name((0, 1)) == cut.name((1, 2)) != cut.name((2, 3))
    assert cut.matrices[0, 1] is cut.matrices[1, 2]
    assert cut.matrices[2, 3].tolist() == matrix[few].tolist()
