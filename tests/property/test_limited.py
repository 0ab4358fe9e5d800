"""Branch and bound under a memory limit, against every combination."""

import time
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Floats
from slicewise.partition.legal import Space
from slicewise.search.limited import Limited
from slicewise.search.mending import Mending
from slicewise.search.optimum import best_slicings
from slicewise.search.problem import Problem, edge_tables
from slicewise.search.solution import Solution
from slicewise.search.solver import Settings
from tests.campaigns import examples
from tests.pricing import pool_of
from tests.property.enumeration import every_peak, every_plan
from tests.property.strategies import any_problem, clusters, graphs


@dataclass(frozen=True)
class Limit:
    """A problem, what its choices keep and need, a limit that some plans fit, and the truth about all of them."""

    problem: Problem
    memory: list[Floats]
    transient: list[Floats]
    limit: float

    @property
    def seconds(self) -> Floats:
        """Of every plan; infinite where it does not fit."""
        return np.where(every_peak(self.memory, self.transient) <= self.limit, every_plan(self.problem), np.inf)

    def slowest(self) -> Solution:
        """The slowest plan that fits: a start that leaves everything to be found."""
        seconds = np.where(np.isinf(self.seconds), -np.inf, self.seconds)
        choice = np.unravel_index(int(seconds.argmax()), seconds.shape)
        return Solution(choice=tuple(map(int, choice)), cost=float(seconds.max()), lower=0.0, method="")

    def search(self) -> Limited:
        return Limited(self.problem, self.memory, self.transient, self.limit, self.slowest())


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    problem = draw(any_problem())
    values = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    memory, transient = (
        [values.integers(0, top, size).astype(float) for size in problem.sizes]
        for top in (20, draw(st.sampled_from([1, 5, 40])))
    )
    peaks = np.unique(every_peak(memory, transient))
    return Limit(problem, memory, transient, float(draw(st.sampled_from(list(peaks)))))


PRICES = st.sampled_from([0.0, 0.1, 1.0, 10.0])


@examples(200)
@given(limits(), PRICES)
def test_it_finds_the_fastest_plan_that_fits(case: Limit, price: float) -> None:
    found = case.search().closed(0.0, price, Settings())
    assert found.cost == case.seconds.min() == case.seconds[found.choice]
    assert found.lower == pytest.approx(found.cost)


@examples(100)
@given(limits(), PRICES, st.integers(0, 6))
def test_stopped_anywhere_its_plan_fits_and_its_bound_holds(case: Limit, price: float, steps: int) -> None:
    search, settings, ticks = case.search(), Settings(time_limit_s=0.5, started_s=0.0), iter([0.0] * steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(ticks, 1.0))
        found = search.closed(0.0, price, settings)
    assert found.lower <= case.seconds.min() + 1e-9
    assert found.cost == case.seconds[found.choice]


@examples(60)
@given(limits(), PRICES, st.sampled_from([0.01, 0.2]))
def test_a_gap_that_will_do_is_reached_and_true(case: Limit, price: float, gap: float) -> None:
    found = case.search().closed(0.0, price, Settings(gap=gap))
    assert found.lower <= case.seconds.min() + 1e-9
    assert found.cost * (1 - gap) <= found.lower + 1e-9


@examples(60)
@given(limits(), st.data())
def test_mending_never_makes_a_plan_that_fits_slower_or_too_large(case: Limit, data: st.DataObject) -> None:
    fitting = np.argwhere(np.isfinite(case.seconds))
    plan = [int(a) for a in fitting[data.draw(st.integers(0, len(fitting) - 1))]]
    mended = Mending(case.problem, case.memory, case.transient, case.limit).mended(plan, 1e9)
    assert case.seconds[tuple(mended)] <= case.seconds[tuple(plan)]


@examples(25)
@given(graphs(max_layers=2), clusters(), st.floats(0.0, 1.0))
def test_a_plan_under_a_limit_is_as_close_to_the_fastest_as_its_certificate_says(
    graph: LayerGraph, cluster: Cluster, share: float
) -> None:
    space = Space(dims_per_layer=2, dims_per_tier=1)
    model = AnalyticModel(graph, cluster)
    pool = pool_of(model, space)
    assume(prod(map(len, pool.choices)) <= 300_000)
    problem = Problem(vectors=tuple(pool.vectors), matrices=edge_tables(model, pool.choices))
    peaks = every_peak([row.memory_bytes for row in pool.seconds], [row.transient_bytes for row in pool.seconds])
    limit = float(peaks.min() + share * (peaks.max() - peaks.min()))
    fastest_s = every_plan(problem)[peaks <= limit].min()
    slicings, certificate = best_slicings(model, space, {}, memory_limit_bytes=limit)
    chosen = pool.rows(slicings)
    assert chosen is not None
    assert peaks[tuple(chosen)] <= limit
    assert certificate.gap <= 0.01
    assert certificate.optimum_s * (1 - certificate.gap) <= fastest_s * (1 + 1e-9)
    assert certificate.optimum_s == pytest.approx(problem.cost(chosen), rel=1e-9)
