"""The example of docs/search.md, as it is worked out there."""

import numpy as np
import pytest

from slicewise.search.bounds import Bounds
from slicewise.search.elimination import eliminate
from slicewise.search.problem import Problem

CHAIN = Problem(
    vectors=(np.array([5.0, 7.0]), np.array([9.0, 4.0]), np.array([3.0, 2.0])),
    matrices={(0, 1): np.array([[0.0, 1.0], [2.0, 0.0]]), (1, 2): np.array([[0.0, 2.0], [3.0, 0.0]])},
)
N, F = 0, 1


def test_elimination_ends_at_twelve() -> None:
    solution = eliminate(CHAIN)
    assert (solution.choice, solution.cost) == ((N, F, F), 12)
    assert CHAIN.cost((N, N, N)) == 17


def test_a_pass_each_way_bounds_every_choice() -> None:
    bounds = Bounds(problem=CHAIN)
    assert bounds.forward() == [N, F, F]
    assert bounds.lower == 12
    bounds.backward()
    assert [bound.tolist() for bound in bounds.of_choice] == [[12, 13], [17, 12], [16, 12]]


@pytest.mark.parametrize(
    ("in_hand", "left"), [(17, [[N, F], [N, F], [N, F]]), (15, [[N, F], [F], [F]]), (12, [[N], [F], [F]])]
)
def test_a_plan_in_hand_rules_out_what_cannot_be_cheaper(in_hand: float, left: list[list[int]]) -> None:
    _, kept = Bounds(problem=CHAIN).tightened(in_hand, passes=1)
    assert [keep.tolist() for keep in kept] == left
