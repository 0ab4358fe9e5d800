"""Published runs through the oracle: a sample of them; `python -m benchmarks.runs.run` has all."""

import pytest

from benchmarks.runs.asking import Answer, asked, measured_on_one
from benchmarks.runs.rows import published


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    return [asked(run) for run in published()[::20]]


def test_runs_that_happened_are_not_called_infeasible(answers: list[Answer]) -> None:
    assert [one.row.reason for one in answers if not one.row.feasible] == []


def test_ranges_hold_most_runs_and_are_no_wider_than_needed(answers: list[Answer]) -> None:
    assert sum(one.covered for one in answers) >= 0.85 * len(answers)
    assert sum(one.width for one in answers) / len(answers) <= 1.75


def test_one_measured_step_tells_what_several_gpus_take() -> None:
    pairs = list(measured_on_one(published()).items())[::15]
    found = [asked(run, (one.batch, one.iteration_s)) for run, one in pairs]
    assert sum(answer.accuracy for answer in found) / len(found) >= 0.9
    assert all(answer.width < asked(answer.run).width for answer in found)
