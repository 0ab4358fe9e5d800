"""Plans under a memory limit, against every plan of networks that are small enough."""

from dataclasses import replace

import numpy as np
import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError, MemoryLimitError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Floats
from slicewise.partition.legal import Space
from slicewise.planning import pareto, plan
from slicewise.search import optimum, priced
from slicewise.search.candidates import Candidates
from slicewise.search.memory import smallest_peak
from slicewise.search.optimum import fastest
from slicewise.search.priced import corners, smallest
from slicewise.search.problem import Problem, edge_tables
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings
from tests.builders import Net, machine
from tests.pricing import pool_of
from tests.property.enumeration import every_peak, every_plan

NARROW = Space(dims_per_layer=1, dims_per_tier=1)


def heavy_net(batch: int = 2) -> LayerGraph:
    """Linear layers whose weights are most of the memory: whole they are quick and large, sliced slow and small."""
    net = Net("heavy_net")
    hidden = net.linear(net.input(batch, 128), 96)
    net.output(net.linear(net.relu(net.linear(hidden, 64)), 160))
    return net.graph


def wide_net(batch: int = 3) -> LayerGraph:
    """A fork, and maps that are most of the memory: what a layer needs while it runs counts."""
    net = Net("wide_net")
    trunk = net.fork(net.conv(net.input(batch, 4, 12, 12), 4))
    net.output(net.add(net.conv(trunk, 4), trunk))
    return net.graph


def seconds_and_peaks(pool: Candidates) -> tuple[Floats, Floats]:
    """Of every plan."""
    problem = Problem(vectors=tuple(pool.vectors), matrices=edge_tables(pool.model, pool.choices))
    peaks = every_peak([row.memory_bytes for row in pool.seconds], [row.transient_bytes for row in pool.seconds])
    return every_plan(problem), peaks


POOLS = [
    pool_of(AnalyticModel(net, machine(*sizes)), NARROW)
    for net, *sizes in ((heavy_net(), 2, 2), (wide_net(), 2), (wide_net(), 3), (heavy_net(), 4))
]
any_pool = pytest.mark.parametrize("pool", POOLS, ids=["heavy 2x2", "wide 2", "wide 3", "heavy 4"])


@any_pool
def test_a_plan_fits_any_limit_that_some_plan_fits_and_no_faster_one_is_below_the_bound(pool: Candidates) -> None:
    seconds, peaks = seconds_and_peaks(pool)
    limits = np.unique(np.linspace(peaks.min(), peaks.max(), 15, dtype=np.int64))
    gaps = []
    for limit in limits:
        solution = fastest(pool, float(limit), [], Settings(), Effort())
        fastest_s = seconds[peaks <= limit].min()
        assert pool.memory(solution.choice)[1] <= limit
        assert solution.cost == pytest.approx(seconds[solution.choice], rel=1e-9)
        assert solution.lower <= fastest_s * (1 + 1e-9) <= solution.cost * (1 + 2e-9)
        gaps.append(1 - solution.lower / solution.cost)
    assert max(gaps) <= 1e-9  # networks this small are closed


@any_pool
def test_the_smallest_plan_has_the_smallest_peak_of_all_and_is_the_fastest_such(pool: Candidates) -> None:
    seconds, peaks = seconds_and_peaks(pool)
    solution = smallest(pool, Settings(), Effort())
    assert pool.memory(solution.choice)[1] == smallest_peak(pool)[1] == peaks.min()
    assert solution.cost == pytest.approx(seconds[peaks == peaks.min()].min(), rel=1e-9)


@any_pool
def test_a_limit_below_the_smallest_peak_is_refused_with_what_is_missing(pool: Candidates) -> None:
    needs = smallest_peak(pool)[1]
    with pytest.raises(MemoryLimitError, match=r"no plan fits: the smallest needs .*B per device, 1.00 B more than"):
        fastest(pool, needs - 1, [], Settings(), Effort())
    assert pool.memory(fastest(pool, needs, [], Settings(), Effort()).choice)[1] == needs


@any_pool
def test_corners_are_different_plans_from_the_fastest_to_the_smallest(pool: Candidates) -> None:
    seconds, peaks = seconds_and_peaks(pool)
    points = sorted(corners(pool, [], Settings()), key=lambda point: point.cost)
    costs = [point.cost for point in points]
    needs = [pool.memory(point.choice)[1] for point in points]
    assert len(points) > 1
    assert len({point.choice for point in points}) == len(points)
    assert costs == pytest.approx([seconds[point.choice] for point in points])
    assert costs[0] == pytest.approx(seconds.min(), rel=1e-9)
    assert needs[-1] == peaks.min()


def test_a_known_plan_that_fits_is_never_beaten_by_the_plan_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices find corners of the convex hull; a plan in hand may lie inside it and still be the fastest that fits."""
    monkeypatch.setattr(priced, "_ENTRIES", 0)  # no branch and bound
    monkeypatch.setattr(priced, "_FEW_ENTRIES", 0)
    pool = POOLS[1]
    seconds, peaks = seconds_and_peaks(pool)
    improved = 0
    for limit in np.unique(peaks)[::8]:
        without = fastest(pool, float(limit), [], Settings(), Effort())
        best = np.unravel_index(np.where(peaks <= limit, seconds, np.inf).argmin(), seconds.shape)
        known = fastest(pool, float(limit), [tuple(map(int, best))], Settings(), Effort())
        assert known.cost == pytest.approx(seconds[best], rel=1e-9)
        assert known.lower <= without.cost * (1 + 1e-9)
        improved += known.cost < without.cost * (1 - 1e-9)
    assert improved


def test_a_plan_for_a_device_fits_it() -> None:
    cluster = machine(2, 2)
    free = plan(heavy_net(), cluster)
    least = plan(heavy_net(), cluster, objective="memory")
    peak, smallest_bytes = free.predicted["peak_memory_bytes"], least.predicted["peak_memory_bytes"]
    assert smallest_bytes < peak
    limit = (peak + smallest_bytes) // 2
    small = replace(cluster, device=replace(cluster.device, memory_bytes=limit))
    for made in (plan(heavy_net(), small), plan(heavy_net(), cluster, memory_limit=limit)):
        assert made.predicted["peak_memory_bytes"] <= limit
        assert made.predicted["additive_s"] >= free.predicted["additive_s"]
        assert made.certificate["constraints"][-1].startswith("at most ")


def test_a_baseline_that_does_not_fit_says_so() -> None:
    cluster = machine(2, 2)
    least = plan(heavy_net(), cluster, objective="memory")
    limit = int(least.predicted["peak_memory_bytes"])
    made = plan(heavy_net(8), cluster, memory_limit=2 * limit)
    assert any(not baseline["feasible"] for baseline in made.baselines.values())
    for baseline in made.baselines.values():
        if "peak_memory_bytes" in baseline:
            assert baseline["feasible"] == (baseline["peak_memory_bytes"] <= 2 * limit)


def test_what_would_fit_is_told_and_does_fit() -> None:
    cluster = machine(2)
    graph = wide_net(4)
    needs = int(plan(graph, cluster, objective="memory").predicted["peak_memory_bytes"])
    with pytest.raises(InfeasibleError, match=r"no plan fits.*; would fit: .*`batch=2`") as error:
        plan(graph, cluster, memory_limit=0.6 * needs)
    assert "`devices=4`" in str(error.value)
    assert plan(graph, cluster, batch=2, memory_limit=0.6 * needs)
    assert plan(graph, cluster, devices=4, memory_limit=0.6 * needs)
    with pytest.raises(InfeasibleError, match="nor with `recompute=True`, 16 times the devices or 1/16 the batch"):
        plan(graph, cluster, memory_limit=10)


@pytest.mark.parametrize("objective", ["time", "memory"])
def test_a_limit_holds_whatever_the_objective(objective: str) -> None:
    with pytest.raises(InfeasibleError, match="no plan fits"):
        plan(wide_net(), machine(2), objective=objective, memory_limit=1000)


def test_an_optimizer_with_less_state_keeps_less() -> None:
    peaks = [
        plan(wide_net(), machine(2), **training.options(), objective="memory").predicted["peak_memory_bytes"]
        for training in (Training(optimizer="adam"), Training(optimizer="momentum"), Training())
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[-1]


def test_pareto_plans_trade_time_for_memory() -> None:
    plans = pareto(heavy_net(), machine(2, 2))
    times = [made.predicted.iteration_s for made in plans]
    peaks = [made.predicted.peak_memory_bytes for made in plans]
    assert times == sorted(set(times))
    assert peaks == sorted(set(peaks), reverse=True)
    assert times[0] <= plan(heavy_net(), machine(2, 2)).predicted.iteration_s
    assert peaks[-1] == plan(heavy_net(), machine(2, 2), objective="memory").predicted["peak_memory_bytes"]


def test_no_row_of_the_front_is_beaten_in_both_columns_and_the_first_is_as_fast_as_the_plan() -> None:
    rows = [made.predicted for made in pareto("alexnet", "p100-4x4", batch=512)]
    for row in rows:
        assert not [
            other
            for other in rows
            if other is not row
            and other.iteration_s <= row.iteration_s
            and other.peak_memory_bytes <= row.peak_memory_bytes
        ]
    assert rows[0].iteration_s <= plan("alexnet", "p100-4x4", batch=512).predicted.iteration_s


def test_the_front_is_of_plans_above_the_devices_memory_where_none_fits() -> None:
    cluster = machine(2)
    small = replace(cluster, device=replace(cluster.device, memory_bytes=10))
    assert pareto(heavy_net(), small)[0].predicted.peak_memory_bytes > 10


def test_memory_has_no_price_where_it_is_ample(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Solution:
        raise AssertionError("priced")

    monkeypatch.setattr(optimum, "fastest_that_fits", refuse)
    pool = POOLS[0]
    _, peaks = seconds_and_peaks(pool)
    assert fastest(pool, float(peaks.max()), [], Settings(), Effort()).cost > 0
    with pytest.raises(AssertionError, match="priced"):
        fastest(pool, float(peaks.min()) + 1, [], Settings(), Effort())
