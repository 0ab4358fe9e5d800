"""What the other files rely on: no rank's answer is left unread."""

from math import isnan, nan
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.distributed.comparing import Difference
from tests.distributed.world import World, agreed


def _rank() -> int:
    return dist.get_rank()


def _drawn() -> list[float]:
    drawn: list[float] = torch.rand(3).tolist()
    torch.manual_seed(dist.get_rank())
    return drawn


def test_an_answer_that_one_rank_does_not_give_is_an_error(pair: World) -> None:
    assert pair.run_each(_rank) == [0, 1]
    with pytest.raises(AssertionError, match=r"ranks disagree: \[0, 1\]"):
        pair.run(_rank)


def test_every_task_finds_the_same_random_numbers_on_every_rank(pair: World) -> None:
    first, second = pair.run_each(_drawn)
    assert [first, second] == pair.run_each(_drawn) == [first, first]


@pytest.mark.parametrize(
    ("answers", "agreement"),
    [
        ([["a", 1], ["a", 1]], ["a", 1]),
        ([(0.0, True), (0.5, True)], (0.5, True)),
        ([{"data": 0.1, "filter": 0.3}, {"data": 0.2, "filter": 0.0}], {"data": 0.2, "filter": 0.3}),
        ([Difference(0.1, 0.2, 0.3), Difference(0.3, 0.2, 0.1)], Difference(0.3, 0.2, 0.3)),
    ],
)
def test_of_figures_the_largest_counts(answers: list[Any], agreement: Any) -> None:
    assert agreed(answers) == agreement


def test_what_is_not_a_number_is_passed_on() -> None:
    assert isnan(agreed([0.0, nan]))


@pytest.mark.parametrize("answers", [[True, False], [[], ["wrong"]], [{}, {"loss": 0.1}], [(5, 4), 0], ["a", "b"]])
def test_whatever_else_differs_is_an_error(answers: list[Any]) -> None:
    with pytest.raises(AssertionError, match="ranks disagree"):
        agreed(answers)
