import numpy as np
import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, check_legal, check_ties, legal_slicings
from slicewise.planning import plan
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.elimination import eliminate
from slicewise.search.optimum import best_slicings
from slicewise.search.pins import Pins
from slicewise.search.problem import Problem, edge_tables
from tests.builders import Net, machine, residual_net
from tests.pricing import cost_of


def tied_net(rows: int = 11, columns: int = 12, *, pooled: int = 2) -> LayerGraph:
    """Two convolutions of one weight on 11 x 12 and 5 x 6: in four parts one is smallest by W, the other by HW."""
    net = Net()
    first = net.conv(net.input(1, 16, rows, columns), 16)
    second = net.conv(net.pool(first, kernel=pooled, stride=pooled), 16)
    net.share(first, second)
    net.output(second)
    return net.graph


def test_choices_are_the_legal_slicings_and_those_of_known_plans() -> None:
    model = AnalyticModel(residual_net(), machine(2, 2))
    narrow = Space(dims_per_layer=1, dims_per_tier=1)
    known: dict[str, Slicing] = {layer.name: (Dim.N, Dim.N) for layer in model.graph}
    known["conv1"] = (Dim.N, Dim.H)
    pool = candidates(model, narrow, {"mine": known}, Pins())
    for layer, choices in zip(model.graph, pool.choices, strict=True):
        listed = {choices[row] for row in range(len(choices))}
        assert listed == set(legal_slicings(layer, model.cluster.mesh, narrow)) | {known[layer.name]}
    rows = pool.rows(known)
    assert rows is not None
    assert pool.slicings(rows) == known
    assert pool.rows({**known, "conv0": (Dim.H, Dim.W)}) is None


def test_what_is_kept_of_the_choices_keeps_its_cost() -> None:
    pool = candidates(AnalyticModel(residual_net(), machine(2, 2)), Space(), {}, Pins())
    kept = [np.arange(0, len(choices), 2) for choices in pool.choices]
    fewer = pool.rows_kept(kept)
    for number, keep in enumerate(kept):
        assert np.array_equal(fewer.vectors[number], pool.vectors[number][keep])
        assert np.array_equal(fewer.choices[number].labels, pool.choices[number].labels[keep])


def test_the_memory_of_a_choice_is_that_of_its_plan() -> None:
    model = AnalyticModel(residual_net(), machine(2, 2))
    pool = candidates(model, Space(), {}, Pins())
    choice = [len(choices) // 2 for choices in pool.choices]
    total = cost_of(model, pool.slicings(choice))
    assert pool.memory(choice) == (total.memory_bytes, total.peak_memory_bytes)


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (2, 3)])
@pytest.mark.parametrize("extents", [(3, 3), (11, 12)])
@pytest.mark.parametrize("objective", ["time", "memory"])
def test_layers_that_share_weights_are_sliced_alike(
    sizes: tuple[int, ...], extents: tuple[int, int], objective: str
) -> None:
    """In plans and in baselines."""
    model = AnalyticModel(tied_net(*extents), machine(*sizes))
    known, _ = baseline_slicings(model)
    chosen, certificate = best_slicings(model, Space(), known, objective=objective)
    for slicings in (chosen, *known.values()):
        check_ties(model.graph, slicings)
        for layer in model.graph:
            check_legal(layer, slicings[layer.name], model.cluster.mesh)
    assert certificate.optimal


def test_the_fastest_plan_of_tied_layers_is_the_fastest_of_those_that_slice_them_alike() -> None:
    """Left alone, the large one would be cut and the small one not."""
    model = AnalyticModel(tied_net(32, 32, pooled=8), machine(2, 2))
    pool = candidates(model, Space(), {}, Pins())
    first, second = model.graph.ties[0]
    problem = Problem(vectors=tuple(pool.vectors), matrices=edge_tables(model, pool.choices))
    alone = eliminate(problem).choice
    assert alone[first] != alone[second]
    costs = []
    for row in range(len(pool.choices[first])):
        rows = [np.arange(len(choices)) for choices in pool.choices]
        rows[first] = rows[second] = np.array([row])
        costs.append(eliminate(problem.restricted(rows)).cost)
    chosen, _ = best_slicings(model, Space(), {})
    assert sum(cost.total_s for cost in model.plan_costs(chosen).values()) == pytest.approx(min(costs), rel=1e-9)


def test_tied_layers_choose_among_what_all_of_them_can_be() -> None:
    """4 rows can be cut in four, the second's 2 cannot."""
    model = AnalyticModel(tied_net(4, 14), machine(4))
    pool = candidates(model, Space(), {}, Pins())
    first, second = model.graph.ties[0]
    assert pool.choices[first] is pool.choices[second]
    assert pool.choices[first].find((Dim.H, Dim.H)) is None
    assert pool.choices[first].find((Dim.H, Dim.W)) is not None


def test_pins_that_would_tear_tied_layers_apart_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="conv0, conv1 share weights and must be sliced alike; pin them so"):
        plan(tied_net(), machine(4), fix=["conv0=H", "conv1=W"])
