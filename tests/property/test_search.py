"""Elimination, against every combination."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.search import elimination, solver
from slicewise.search.elimination import eliminate, irreducible_nodes, order, planned
from slicewise.search.exhaustive import enumerate_all
from slicewise.search.problem import Problem
from tests.campaigns import examples
from tests.property.enumeration import every_plan
from tests.property.strategies import BIPARTITE, CHAIN, DENSE, INCEPTION, K4, RESIDUAL, any_problem, problems


@examples(300)
@given(any_problem())
def test_elimination_finds_what_exhaustive_search_finds(problem: Problem) -> None:
    solution = eliminate(problem)
    assert solution.cost == enumerate_all(problem).cost
    assert solution.cost == problem.cost(solution.choice)
    assert solution.lower == solution.cost


@examples(100)
@given(any_problem())
def test_exhaustive_search_finds_the_cheapest_of_all(problem: Problem) -> None:
    solution = enumerate_all(problem)
    costs = every_plan(problem)
    assert solution.cost == costs.min() == costs[solution.choice]


@examples(60)
@given(any_problem(), st.integers(1, 30))
def test_working_in_blocks_changes_nothing(problem: Problem, items: int) -> None:
    with patch.object(elimination, "_BLOCK_ITEMS", items):
        in_blocks = eliminate(problem)
    assert in_blocks == eliminate(problem)


@examples(100)
@given(any_problem(), st.integers(1, 2), st.sampled_from([0.0, 1.0]))
def test_passes_then_elimination_find_what_elimination_alone_finds(
    problem: Problem, promising: int, nearly_all: float
) -> None:
    with patch.multiple(solver, _PROMISING=promising, _NEARLY_ALL=nearly_all, _ENTRIES_PER_NODE=0.0):
        found = solver.solve_tables(problem, [[0] * len(problem.sizes)])
    assert found.cost == pytest.approx(eliminate(problem).cost, rel=1e-9, abs=1e-9)
    assert found.cost == pytest.approx(problem.cost(found.choice), rel=1e-9, abs=1e-9)
    assert found.lower == pytest.approx(found.cost, rel=1e-9, abs=1e-9)


def looked_at(problem: Problem) -> int:
    """Entries that elimination looks at."""
    entries = []
    minimise_out = elimination._minimise_out

    def counting(step: elimination._Step, *tables: Any) -> Any:
        costs = minimise_out(step, *tables)
        entries.append(costs.size * problem.sizes[step.node])
        return costs

    with patch.object(elimination, "_minimise_out", counting):
        eliminate(problem)
    return sum(entries)


@examples(60)
@given(any_problem())
def test_the_order_takes_every_node_once_and_counts_what_elimination_looks_at(problem: Problem) -> None:
    found = order(problem.sizes, problem.matrices)
    assert sorted(found.nodes) == list(range(len(problem.sizes)))
    assert planned(problem).work == looked_at(problem) <= found.work


def row_of_blocks(blocks: int, random: np.random.Generator) -> Problem:
    """x -> f(x) + x again and again, every block with the same tables: only then can they be shared."""
    size = 4
    trunk, inner = (random.integers(0, 99, size).astype(float) for _ in range(2))
    before, after, around = (random.integers(0, 99, (size, size)).astype(float) for _ in range(3))
    matrices: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    for block in range(blocks):
        start = 2 * block
        matrices |= {(start, start + 1): before, (start + 1, start + 2): after, (start, start + 2): around}
    return Problem(vectors=(trunk, *(inner, trunk) * blocks), matrices=matrices)


def test_a_row_of_equal_blocks_costs_little_more_than_one() -> None:
    one, many = (row_of_blocks(blocks, np.random.default_rng(0)) for blocks in (1, 64))
    assert looked_at(many) == planned(many).work < 16 * looked_at(one)
    assert order(many.sizes, many.matrices).work > 60 * looked_at(one)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_shared_between_equal_blocks_changes_nothing(seed: int) -> None:
    shared = row_of_blocks(9, np.random.default_rng(seed))
    alone = Problem(vectors=shared.vectors, matrices={pair: matrix.copy() for pair, matrix in shared.matrices.items()})
    assert planned(shared).work < planned(alone).work
    assert eliminate(shared).cost == eliminate(alone).cost == shared.cost(eliminate(shared).choice)


def test_nodes_without_a_choice_may_have_any_number_of_neighbours() -> None:
    """numpy's arrays have 64 dims at most: one is spent only on what is still to be decided."""
    sizes = [1] * 80 + [2, 3]
    random = np.random.default_rng(0)
    vectors = tuple(random.integers(0, 99, size).astype(float) for size in sizes)
    matrices = {(0, node): random.integers(0, 99, (1, size)).astype(float) for node, size in enumerate(sizes) if node}
    problem = Problem(vectors=vectors, matrices=matrices)
    solution = eliminate(problem)
    assert solution.cost == problem.cost(solution.choice)
    assert solution.cost == min(problem.cost([0] * 80 + [a, b]) for a in range(2) for b in range(3))


@pytest.mark.parametrize("edges", [CHAIN, RESIDUAL, INCEPTION])
def test_series_parallel_graphs_reduce_to_two_nodes(edges: list[tuple[int, int]]) -> None:
    assert irreducible_nodes(6, edges) == 2


@pytest.mark.parametrize(("edges", "left"), [(K4, 4), (DENSE, 6), (BIPARTITE, 6)])
@examples(30)
@given(data=st.data())
def test_other_graphs_keep_more_and_are_solved_all_the_same(
    edges: list[tuple[int, int]], left: int, data: st.DataObject
) -> None:
    problem = data.draw(problems(edges))
    assert irreducible_nodes(len(problem.vectors), edges) == left
    assert eliminate(problem).cost == every_plan(problem).min()
