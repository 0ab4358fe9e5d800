"""Scalars of a run while it runs: what is written, by whom, and that `diagnose` reads it."""

import tempfile
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import slicewise as sw
from slicewise.errors import RequestError
from tests.builders import machine
from tests.distributed.run_models import residual
from tests.distributed.world import World

STEPS = 12


def _plan() -> sw.Plan:
    model, sample = residual()
    return sw.plan(model, machine(2), sample=sample, batch=4, strategy="filter")


def test_rank_0_writes_predicted_and_measured_of_each_step_and_diagnose_reads_them(pair: World) -> None:
    folder = Path(tempfile.mkdtemp())
    told, elsewhere = pair.run_each(_tracked, str(folder))
    assert elsewhere == []
    by_name: dict[str, dict[int, float]] = {}
    for name, value, step in told:
        by_name.setdefault(name, {})[step] = value
    assert {steps.keys() == set(range(1, STEPS)) for steps in by_name.values()} == {True}
    plan = _plan()
    assert set(by_name["slicewise/predicted_s"].values()) == {plan.predicted.iteration_s}
    assert min(by_name["slicewise/step_s"].values()) > 0.01  # each step sleeps as long
    assert min(by_name["slicewise/transfer_s"].values()) > 0.0
    for step, ratio in by_name["slicewise/measured_over_predicted"].items():
        assert ratio == pytest.approx(by_name["slicewise/step_s"][step] / plan.predicted.iteration_s)
    plan.save(folder / "plan.json")
    found = sw.diagnose(folder / "plan.json", [folder / "steps.csv"])
    assert found.measured["steps"] == STEPS - 1
    assert not found.as_projected  # a toy machine, and a nap in every step


def _tracked(folder: str) -> list[tuple[str, float, int]]:
    model, _ = residual()
    net = sw.parallelize(model, _plan())
    told: list[tuple[str, float, int]] = []
    with sw.track(_plan(), lambda *scalar: told.append(scalar), csv=Path(folder) / "steps.csv") as tracked:
        for _ in range(STEPS):
            net(torch.randn(4 if not net.local_samples else 4 // dist.get_world_size(), 4, 8, 8)).sum().backward()
            time.sleep(0.01)
            tracked.step()
    return told


def test_tensorboards_writer_is_taken_as_it_is_and_others_are_refused(tmp_path: Path) -> None:
    class SummaryWriter:
        def __init__(self) -> None:
            self.names: set[str] = set()

        def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
            self.names.add(tag)

    writer = SummaryWriter()
    with sw.track(_plan(), writer) as tracked:
        tracked.step()
        tracked.step()
    assert "slicewise/step_s" in writer.names
    with pytest.raises(RequestError, match="a str writes no scalars"):
        sw.track(_plan(), "tensorboard")  # type: ignore[arg-type]


@pytest.mark.long  # importing TensorBoard takes longer than most tests
def test_tensorboard_shows_them(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(tmp_path)
        with sw.track(_plan(), writer, first_step=40) as tracked:
            for _ in range(3):
                tracked.step()
        writer.close()
        shown = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in shown.Scalars("slicewise/measured_over_predicted")] == [41, 42]
