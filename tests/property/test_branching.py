"""Branch and bound, against every combination."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.search.bounds import Bounds
from slicewise.search.branching import branch_and_bound
from slicewise.search.problem import Problem
from tests.campaigns import examples
from tests.property.enumeration import every_plan
from tests.property.strategies import DENSE, K4, any_problem, problems

NEVER, NOW = float("inf"), 0.0


@examples(150)
@given(any_problem())
def test_without_a_deadline_it_finds_the_cheapest_plan(problem: Problem) -> None:
    solution = branch_and_bound(Bounds(problem=problem), float("inf"), NEVER, lambda _: None)
    assert solution.cost == every_plan(problem).min() == problem.cost(solution.choice)
    assert solution.lower == pytest.approx(solution.cost)


@examples(60)
@given(any_problem())
def test_with_the_best_plan_in_hand_it_finds_no_other_and_says_so(problem: Problem) -> None:
    best = every_plan(problem).min()
    solution = branch_and_bound(Bounds(problem=problem), best, NEVER, lambda _: None)
    assert solution.choice == ()
    assert solution.cost == best
    assert solution.lower == pytest.approx(best)


@examples(60)
@given(any_problem(), st.sampled_from([0.01, 0.2]))
def test_a_gap_that_will_do_is_reached_and_true(problem: Problem, gap: float) -> None:
    best = every_plan(problem).min()
    solution = branch_and_bound(Bounds(problem=problem), float("inf"), NEVER, lambda _: None, gap)
    assert solution.cost == pytest.approx(problem.cost(solution.choice))
    assert solution.lower <= best + 1e-9
    assert solution.cost * (1 - gap) <= solution.lower + 1e-9


@examples(60)
@given(any_problem(), st.integers(0, 3))
def test_at_the_deadline_what_is_open_says_how_far_off_it_can_be(problem: Problem, rounds: int) -> None:
    root = Bounds(problem=problem)
    for _ in range(rounds):
        root.forward()
        root.backward()
    best = every_plan(problem).min()
    solution = branch_and_bound(root, best + 1, NOW, lambda _: None)
    assert (solution.choice, solution.cost) == ((), best + 1)
    assert solution.lower == min(root.lower, best + 1)
    assert solution.lower <= best + 1e-9


@examples(60)
@given(st.sampled_from([K4, DENSE]).flatmap(problems), st.integers(1, 8))
def test_stopped_anywhere_in_between_its_bound_holds(problem: Problem, steps: int) -> None:
    ticks = iter([0.0] * steps)
    best = every_plan(problem).min()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: next(ticks, 1.0))
        solution = branch_and_bound(Bounds(problem=problem), float("inf"), 0.5, lambda _: None)
    assert solution.lower <= best + 1e-9
    assert solution.cost == problem.cost(solution.choice) >= best
