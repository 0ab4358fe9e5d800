"""Spelling of the oracle's options and answers."""

import argparse

import pytest

from slicewise.cli.oracle import counts, per_device, split
from slicewise.strategies.showing import hours


def test_dots_go_on_with_the_last_factor() -> None:
    assert counts("1,2,...,1024") == [1 << power for power in range(11)]
    assert counts("1,4,...,1024") == [1, 4, 16, 64, 256, 1024]
    assert counts("1,4,...,100") == [1, 4, 16, 64, 100]
    assert counts("8") == [8]


@pytest.mark.parametrize("text", ["...,8", "4,...,64", "1,2,...", "4,2,...,64", "1,,2", "a"])
def test_counts_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        counts(text)


def test_splits_and_shares_of_a_sample() -> None:
    assert split("16x4") == (16, 4)
    assert per_device("0.25") == 0.25
    for wrong in ("0", "-1", "inf", "nan", "x"):
        with pytest.raises(argparse.ArgumentTypeError):
            per_device(wrong)


def test_times_as_people_read_them() -> None:
    assert [hours(value) for value in (12.0, 90, 5400, 360000)] == ["12.0 s", "1.5 min", "1 h 30 min", "100 h 00 min"]
