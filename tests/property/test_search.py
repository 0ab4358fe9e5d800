"""Elimination and pruning, against every combination."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.search import elimination
from slicewise.search.elimination import eliminate, irreducible_nodes
from slicewise.search.exhaustive import enumerate_all
from slicewise.search.problem import Problem
from slicewise.search.prune import undominated, within_bound
from tests.property.strategies import (
    BIPARTITE,
    CHAIN,
    DENSE,
    INCEPTION,
    K4,
    RESIDUAL,
    arbitrary_edges,
    problems,
    wide_problems,
)

SHAPES = [CHAIN, RESIDUAL, INCEPTION, K4, DENSE, BIPARTITE]


def any_problem() -> st.SearchStrategy[Problem]:
    return st.one_of(st.sampled_from(SHAPES).flatmap(problems), arbitrary_edges().flatmap(problems), wide_problems())


@settings(max_examples=300)
@given(any_problem())
def test_elimination_finds_what_exhaustive_search_finds(problem: Problem) -> None:
    solution = eliminate(problem)
    assert solution.cost == enumerate_all(problem).cost
    assert solution.cost == problem.cost(solution.choice)


@settings(max_examples=60)
@given(any_problem(), st.integers(1, 30))
def test_working_in_blocks_changes_nothing(problem: Problem, items: int) -> None:
    with patch.object(elimination, "_BLOCK_ITEMS", items):
        in_blocks = eliminate(problem)
    assert in_blocks == eliminate(problem)


@settings(max_examples=150)
@given(any_problem(), st.integers(0, 2**32 - 1))
def test_pruning_by_bound_never_loses_the_optimum(problem: Problem, seed: int) -> None:
    """Whatever plan is in hand: any one, or the best itself."""
    best = enumerate_all(problem)
    chooser = np.random.default_rng(seed)
    known = [int(chooser.integers(len(vector))) for vector in problem.vectors]
    for incumbent in (problem.cost(known), best.cost):
        kept = within_bound(problem.vectors, incumbent)
        assert all(option in keep for option, keep in zip(best.choice, kept, strict=True))
        assert eliminate(problem.restricted(kept)).cost == best.cost


@settings(max_examples=200)
@given(any_problem())
def test_pruning_by_dominance_never_loses_the_optimum(problem: Problem) -> None:
    alive = undominated(problem)
    solution = eliminate(problem.restricted(alive))
    assert solution.cost == enumerate_all(problem).cost
    chosen = [int(keep[option]) for keep, option in zip(alive, solution.choice, strict=True)]
    assert problem.cost(chosen) == solution.cost


@settings(max_examples=80)
@given(any_problem())
def test_a_dominated_choice_is_dropped(problem: Problem) -> None:
    """A copy of a choice that costs more, and is no better to any neighbour, does not survive."""
    node = len(problem.vectors) - 1
    keep = [np.arange(len(vector)) for vector in problem.vectors]
    keep[node] = np.append(keep[node], 0)
    doubled = problem.restricted(keep)
    doubled.vectors[node][-1] += 1
    assert len(doubled.vectors[node]) - 1 not in undominated(doubled)[node]


@pytest.mark.parametrize("edges", [CHAIN, RESIDUAL, INCEPTION])
@settings(max_examples=5)
@given(data=st.data())
def test_series_parallel_graphs_reduce_to_two_nodes(edges: list[tuple[int, int]], data: st.DataObject) -> None:
    assert irreducible_nodes(data.draw(problems(edges))) == 2


@pytest.mark.parametrize(("edges", "left"), [(K4, 4), (DENSE, 6), (BIPARTITE, 6)])
@settings(max_examples=5)
@given(data=st.data())
def test_other_graphs_keep_more_and_are_solved_all_the_same(
    edges: list[tuple[int, int]], left: int, data: st.DataObject
) -> None:
    problem = data.draw(problems(edges))
    assert irreducible_nodes(problem) == left
    solution = eliminate(problem)
    assert solution.remaining_nodes == left
    assert solution.cost == enumerate_all(problem).cost
