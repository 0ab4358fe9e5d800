"""The search by refinement, made to refine small networks, against elimination on full tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from slicewise.search import solver
from slicewise.search.candidates import Candidates
from slicewise.search.elimination import eliminate
from slicewise.search.optimum import best_slicings
from slicewise.search.problem import Problem, edge_tables
from slicewise.search.refine import Refinement
from tests.builders import machine, residual_net, small_cnn
from tests.campaigns import examples
from tests.pricing import cost_of, pool_of
from tests.property.enumeration import cheapest_with, every_plan
from tests.property.strategies import DEEP_SIZES, clusters, graphs

SPACE = Space(dims_per_layer=3, dims_per_tier=2)


@contextmanager
def refining(*, promising: int, first_look: int, merged_axes: int) -> Iterator[None]:
    """The solver refines however small the tables are, and sees little of them at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_QUICK_PAIRS", 0)
        patch.setattr(solver, "_PROMISING", promising)
        patch.setattr(solver, "_FIRST_LOOK", first_look)
        patch.setattr(solver, "_MERGED_AXES", merged_axes)
        yield


def full_tables(pool: Candidates) -> Problem:
    return Problem(vectors=tuple(pool.vectors), matrices=edge_tables(pool.model, pool.choices))


def total_s(model: CostModel, space: Space = SPACE) -> float:
    best, certificate = best_slicings(model, space, {})
    assert certificate.optimal
    return cost_of(model, best).total_s


@examples(40)
@given(graphs(max_layers=3), clusters(DEEP_SIZES), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_refining_finds_what_elimination_on_full_tables_finds(
    graph: LayerGraph, cluster: Cluster, promising: int, first_look: int, merged_axes: int
) -> None:
    model = AnalyticModel(graph, cluster)
    expected_s = eliminate(full_tables(pool_of(model, SPACE))).cost
    with refining(promising=promising, first_look=first_look, merged_axes=merged_axes):
        assert total_s(model) == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("graph", [small_cnn(8), residual_net(8)], ids=lambda graph: graph.name)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 6)])
def test_refining_changes_nothing_on_a_machine_of_several_tiers(graph: LayerGraph, sizes: tuple[int, ...]) -> None:
    model = AnalyticModel(graph, machine(*sizes))
    plain_s = total_s(model)
    with refining(promising=4, first_look=3, merged_axes=2):
        assert total_s(model) == pytest.approx(plain_s, rel=1e-9)
    assert eliminate(full_tables(pool_of(model, SPACE))).cost == pytest.approx(plain_s, rel=1e-9)


@examples(20)
@given(graphs(max_layers=2), clusters([(2, 2), (2, 3), (4,)]), st.integers(1, 4))
def test_bounds_of_groups_and_slicings_hold_at_every_stage(graph: LayerGraph, cluster: Cluster, most: int) -> None:
    """Until all groups are split: no choice that an optimum uses is dropped, and no bound exceeds the truth."""
    pool = pool_of(AnalyticModel(graph, cluster), Space(dims_per_layer=1, dims_per_tier=1))
    assume(prod(map(len, pool.choices)) <= 200_000)
    problem = full_tables(pool)
    truths, best = cheapest_with(problem), every_plan(problem).min()
    everything = [np.arange(size) for size in problem.sizes]
    state = Refinement(pool.model, 1, pool.choices, pool.vectors, everything)
    while True:
        state.tighten(best)
        assert state.lower <= best * (1 + 1e-9)
        for bound, truth in zip(state.choice_bounds(), truths, strict=True):
            possible = truth <= best * (1 + 1e-12)
            assert np.all(bound[possible] <= best * (1 + 1e-9))
            open_still = np.isfinite(bound) & (bound <= best)
            assert np.all(bound[open_still] <= truth[open_still] * (1 + 1e-9))
        if not state.groups_left():
            break
        state.split(best, most)
