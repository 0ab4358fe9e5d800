"""The search as a whole, where it takes other ways than elimination on small tables."""

import time

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from slicewise.planning import plan
from slicewise.search import solver
from slicewise.search.baselines import baseline_slicings
from slicewise.search.certificate import Certificate
from slicewise.search.optimum import best_slicings
from slicewise.search.solver import Settings
from tests.builders import dense_net, machine, residual_net, small_cnn
from tests.pricing import cost_of

NOW = Settings(time_limit_s=0)
GRAPHS = [small_cnn(8), residual_net(8), dense_net()]
any_graph = pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
any_machine = pytest.mark.parametrize("sizes", [(4,), (2, 2), (2, 3)])


def searched(model: CostModel, settings: Settings = Settings()) -> tuple[float, Certificate]:  # noqa: B008 (frozen)
    best, certificate = best_slicings(model, Space(), baseline_slicings(model)[0], settings=settings)
    return cost_of(model, best).total_s, certificate


def check_gap(cost_s: float, certificate: Certificate, optimum_s: float) -> None:
    """No plan in the space is cheaper than the certificate says."""
    assert cost_s >= optimum_s * (1 - 1e-9)
    assert cost_s * (1 - certificate.gap) <= optimum_s * (1 + 1e-9)
    assert certificate.optimal == (certificate.gap == 0)


def test_the_dense_network_is_wider_than_the_papers_rules_can_take() -> None:
    _, certificate = searched(AnalyticModel(dense_net(), machine(2)))
    assert certificate.remaining_nodes > 2
    assert certificate.method == "elimination"


@any_graph
@any_machine
def test_branch_and_bound_finds_what_elimination_finds(
    graph: LayerGraph, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AnalyticModel(graph, machine(*sizes))
    eliminated_s, _ = searched(model)
    monkeypatch.setattr(solver, "_LIMIT", -1)
    monkeypatch.setattr(solver, "_FINE_PASSES", 1)
    bounded_s, certificate = searched(model)
    assert bounded_s == pytest.approx(eliminated_s, rel=1e-9)
    assert (certificate.method, certificate.optimal, certificate.gap) == ("branch and bound", True, 0)


@any_graph
@any_machine
def test_at_a_deadline_the_gap_is_true_and_no_baseline_is_cheaper(graph: LayerGraph, sizes: tuple[int, ...]) -> None:
    model = AnalyticModel(graph, machine(*sizes))
    optimum_s, _ = searched(model)
    cost_s, certificate = searched(model, NOW)
    check_gap(cost_s, certificate, optimum_s)
    assert certificate.method == "branch and bound"
    for slicings in baseline_slicings(model)[0].values():
        assert cost_s <= cost_of(model, slicings).total_s * (1 + 1e-9)


def test_what_a_deadline_left_open_is_said() -> None:
    made = plan(residual_net(8), machine(4), time_limit=1e-9)
    best = plan(residual_net(8), machine(4))
    assert not made.certificate["optimal"]
    assert 0 < made.certificate["gap"] < 1
    assert made.predicted["additive_s"] > best.predicted["additive_s"]
    assert best.certificate["optimal"]


@any_graph
def test_a_deadline_during_refinement_leaves_a_true_gap(graph: LayerGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = AnalyticModel(graph, machine(2, 3))
    optimum_s, _ = searched(model)
    monkeypatch.setattr(solver, "_QUICK_PAIRS", 0)
    monkeypatch.setattr(solver, "_PROMISING", 1)
    monkeypatch.setattr(solver, "_FIRST_LOOK", 1)
    cost_s, certificate = searched(model, NOW)
    check_gap(cost_s, certificate, optimum_s)
    assert certificate.method == "refinement"
    assert certificate.gap > 0


@any_graph
@pytest.mark.parametrize("gap", [0.9, 0.2])
def test_a_plan_that_is_close_enough_ends_refinement(
    graph: LayerGraph, gap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AnalyticModel(graph, machine(2, 3))
    optimum_s, _ = searched(model)
    monkeypatch.setattr(solver, "_QUICK_PAIRS", 0)
    monkeypatch.setattr(solver, "_PROMISING", 1)
    monkeypatch.setattr(solver, "_FIRST_LOOK", 1)
    cost_s, certificate = searched(model, Settings(gap=gap))
    check_gap(cost_s, certificate, optimum_s)
    assert certificate.gap <= gap
    assert certificate.method == "refinement" or certificate.gap == 0


def test_all_searches_of_a_request_share_one_deadline() -> None:
    """A memory limit takes a search per price; each is over at once."""
    model = AnalyticModel(dense_net(), machine(2, 2))
    known, _ = baseline_slicings(model)
    late = Settings(time_limit_s=10, started_s=time.perf_counter() - 11)
    assert late.deadline_s < time.perf_counter()
    smallest = plan(dense_net(), machine(2, 2), objective="memory").predicted["peak_memory_bytes"]
    _, certificate = best_slicings(model, Space(), known, settings=late, memory_limit_bytes=1.2 * smallest)
    assert certificate.method == "branch and bound"
    assert certificate.gap > 0


def test_the_search_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    model = AnalyticModel(residual_net(8), machine(2, 2))
    searched(model, Settings(progress=told.append))
    assert told[0].startswith("pricing the layout changes between ")
    assert told[1].startswith("pass 1: ")
    monkeypatch.setattr(solver, "_QUICK_PAIRS", 0)
    monkeypatch.setattr(solver, "_PROMISING", 1)
    monkeypatch.setattr(solver, "_FIRST_LOOK", 1)
    told.clear()
    searched(model, Settings(progress=told.append))
    assert told[0].startswith("between ")


def test_the_certificate_accounts_for_the_time() -> None:
    start = time.perf_counter()
    _, certificate = searched(AnalyticModel(residual_net(8), machine(2, 2)))
    assert certificate.tables_s > 0
    assert certificate.search_s > 0
    assert certificate.tables_s + certificate.search_s <= time.perf_counter() - start
