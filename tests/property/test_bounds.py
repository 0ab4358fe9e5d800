"""Message passing, against what the cheapest plan with each choice really costs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.partition.choices import Floats, Ints
from slicewise.search.bounds import Bounds
from slicewise.search.elimination import eliminate
from slicewise.search.problem import Problem
from tests.campaigns import examples
from tests.property.enumeration import cheapest_with, every_plan
from tests.property.strategies import any_problem, problems

ROUNDING = 1e-9


def check(bounds: Bounds) -> None:
    """No bound exceeds the truth about the bounds' own problem."""
    assert bounds.lower <= every_plan(bounds.problem).min() + ROUNDING
    for bound, truth in zip(bounds.of_choice, cheapest_with(bounds.problem), strict=True):
        assert np.all(bound <= truth + ROUNDING)


@examples(300)
@given(any_problem(), st.integers(1, 6))
def test_no_bound_exceeds_what_the_cheapest_plan_with_that_choice_costs(problem: Problem, rounds: int) -> None:
    bounds = Bounds(problem=problem)
    for _ in range(rounds):
        bounds.forward()
        check(bounds)
        bounds.backward()
        check(bounds)


@examples(100)
@given(st.integers(2, 6).flatmap(lambda nodes: problems(list(pairwise(range(nodes))))))
def test_on_a_chain_a_pass_each_way_makes_every_bound_exact(problem: Problem) -> None:
    bounds = Bounds(problem=problem)
    plan = bounds.forward()
    bounds.backward()
    assert bounds.lower == pytest.approx(every_plan(problem).min())
    for bound, truth in zip(bounds.of_choice, cheapest_with(problem), strict=True):
        assert bound == pytest.approx(truth)
    assert problem.cost(plan) >= bounds.lower - ROUNDING
    assert problem.cost(bounds.forward()) == pytest.approx(bounds.lower)  # the messages now lead to the optimum


@examples(200)
@given(any_problem(), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_dropping_choices_never_loses_an_optimum(problem: Problem, rounds: int, seed: int) -> None:
    """Whatever plan is in hand: any one, or the best itself."""
    best = every_plan(problem).min()
    truths = cheapest_with(problem)
    chooser = np.random.default_rng(seed)
    known = [int(chooser.integers(size)) for size in problem.sizes]
    for in_hand in (problem.cost(known), best):
        bounds, kept = Bounds(problem=problem).tightened(in_hand, rounds)
        for keep, truth in zip(kept, truths, strict=True):
            assert set(np.flatnonzero(truth == best)) <= set(keep)
        assert bounds.problem.sizes == [len(keep) for keep in kept]
        assert eliminate(bounds.problem).cost == best
        check(bounds)
        bounds.forward()
        bounds.backward()
        check(bounds)


@examples(100)
@given(any_problem(), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_messages_of_groups_bound_their_members(problem: Problem, rounds: int, seed: int) -> None:
    """Bounds for groups of choices, each as cheap as its cheapest member, go on as bounds for the members."""
    chooser = np.random.default_rng(seed)
    groups = [chooser.permutation(np.arange(size) % chooser.integers(1, size + 1)) for size in problem.sizes]
    bounds = Bounds(problem=grouped(problem, groups))
    for _ in range(rounds):
        bounds.forward()
        bounds.backward()
    members = bounds.continued(problem, groups)
    check(members)
    for _ in range(2):
        members.forward()
        check(members)
        members.backward()
        check(members)


def grouped(problem: Problem, groups: list[Ints]) -> Problem:
    """Choices of one group as one choice: the cheapest of each."""

    def least(table: Floats, group: Ints, dim: int) -> Floats:
        return np.stack([table.compress(group == number, dim).min(axis=dim) for number in np.unique(group)], axis=dim)

    return Problem(
        vectors=tuple(least(vector, group, 0) for vector, group in zip(problem.vectors, groups, strict=True)),
        matrices={
            (i, j): least(least(matrix, groups[i], 0), groups[j], 1) for (i, j), matrix in problem.matrices.items()
        },
    )
