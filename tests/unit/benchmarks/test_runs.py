"""Published runs through the oracle: a sample of them; `python -m benchmarks.runs.run` has all."""

from dataclasses import replace
from itertools import cycle
from math import isinf

import pytest

from benchmarks.runs.asking import Answer, asked, measured_on_one
from benchmarks.runs.networks import DATA, network
from benchmarks.runs.rows import published
from slicewise.cluster.cluster import load_cluster, preset_names
from slicewise.cluster.device import device_names, load_device
from slicewise.graph.sources import shipped_names
from slicewise.strategies.projecting import oracle


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


def test_every_network_has_an_answer_on_every_device_in_every_dtype() -> None:
    """Whatever row is asked for: a projection with its range, or the reason why there is none."""
    names = (*shipped_names(), *(path.stem for path in DATA.glob("*.json")))
    machines = [load_cluster(name) for name in preset_names()]
    machines += [replace(machines[-1], device=load_device(name)) for name in device_names()]
    asked_for = [(machine, dtype) for machine in machines for dtype in machine.device.peaks]
    batches, software = cycle([1, 3, 256]), cycle(["plain", "tuned", None])
    for name, (machine, dtype) in zip(cycle(names), asked_for * -(-len(names) // len(asked_for)), strict=False):
        found = oracle(
            network(name), machine, devices=[1, 3, 4096], batch=next(batches), dtype=dtype, software=next(software),
            strategies=["serial", "data", "data+spatial"],
        )  # fmt: skip
        for row, told in zip(found, found.to_dict()["rows"], strict=True):
            assert {"iteration_s", "low_s", "high_s", "feasible", "reason"} <= told.keys()
            if row.terms is None:
                assert row.reason
                assert isinf(row.iteration_s)
            else:
                assert 0 < row.low_s <= row.iteration_s <= row.high_s < float("inf")
                assert row.feasible == (row.reason is None)
