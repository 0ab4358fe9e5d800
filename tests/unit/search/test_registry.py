import numpy as np
import pytest

from slicewise.errors import RequestError, UnknownName
from slicewise.search.elimination import eliminate, irreducible_nodes
from slicewise.search.exhaustive import enumerate_all
from slicewise.search.problem import Problem
from slicewise.search.registry import SEARCHES, search_named


def test_searches_are_found_by_name() -> None:
    assert search_named("elimination") is eliminate
    assert search_named("exhaustive") is enumerate_all


def test_an_unknown_search_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="unknown search 'luck'; choose from elimination, exhaustive"):
        search_named("luck")


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_solves_a_problem_worked_out_by_hand(name: str) -> None:
    """Node 0 alone would take option 1; the edge makes option 0 cheaper: 2 + 0 + 1 against 1 + 5 + 1."""
    problem = Problem(
        vectors=(np.array([2.0, 1.0]), np.array([1.0])),
        matrices={(0, 1): np.array([[0.0], [5.0]])},
    )
    solution = search_named(name)(problem)
    assert (solution.choice, solution.cost, solution.lower, solution.method) == ((0, 0), 3.0, 3.0, name)
    assert problem.cost(solution.choice) == 3.0


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_solves_a_single_layer(name: str) -> None:
    solution = search_named(name)(Problem(vectors=(np.array([3.0, 1.0, 2.0]),), matrices={}))
    assert (solution.choice, solution.cost) == ((1,), 1.0)


def test_exhaustive_search_refuses_what_would_not_end() -> None:
    problem = Problem(vectors=(np.zeros(100),) * 6, matrices={})
    with pytest.raises(RequestError, match=r'over 1e\+12 plans would not end; use `search="elimination"`'):
        enumerate_all(problem)


def test_two_tables_between_one_pair_of_nodes_are_one_edge() -> None:
    """0 -> 1 -> 2 beside 0 -> 2: eliminating 1 leaves a second table between 0 and 2."""
    assert irreducible_nodes(3, [(0, 1), (1, 2), (0, 2)]) == 2
