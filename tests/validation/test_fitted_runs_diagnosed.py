"""Runs that taught a machine are not then called strange by it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paradl.machine import measured_runs
from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import Training
from slicewise.diagnosis.diagnosing import Asked, judged_as
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.verdict import Fault
from slicewise.fitting.fit import fit
from slicewise.fitting.runs import Run
from slicewise.graph.sources import load_graph
from slicewise.strategies.projecting import oracle_of

LOCAL = Training(batchnorm="local")


def published(most_devices: int) -> list[Run]:
    """ResNet-50 under data, filter and channel: 17 in all."""
    found = [run for run in measured_runs() if run.model == "resnet50" and "+" not in run.strategy]
    assert len(found) == 17
    return [run for run in found if run.devices <= most_devices]


@pytest.mark.parametrize("most_devices", [16, pytest.param(1024, marks=pytest.mark.long)])
def test_a_machine_judges_the_runs_it_was_fitted_on_by_what_the_fit_left(most_devices: int, tmp_path: Path) -> None:
    runs = published(most_devices)
    machine = fit(runs, load_cluster("abci-v100")).cluster
    assert machine.tuning.margin is not None
    graph, noise = load_graph("resnet50"), np.exp(np.random.default_rng(3).normal(0, 0.01, 40))
    verdicts = []
    for run in runs:
        rows = [f"{step},{run.iteration_s * factor}" for step, factor in enumerate(noise)]
        path = tmp_path / "steps.csv"
        path.write_text("\n".join(["step,iteration_s", *rows]))
        asked = Asked(model="resnet50", cluster=machine.name, devices=run.devices, batch=run.batch)
        row = oracle_of(graph, machine, batch=run.batch, training=LOCAL).project(run.strategy, run.devices)
        assert row.high_s == pytest.approx(row.iteration_s * (1 + machine.tuning.margin), rel=1e-6)
        verdicts.append(judged_as(row, asked, read_files([path])))
        slow = judged_as(replace(row, terms=row.terms and row.terms.stretched(0.0)), asked, read_files([path]))
        assert run.strategy == "data" or not slow.as_projected  # links that cost nothing explain no such run
    kinds = [found.verdicts[0].kind for found in verdicts]
    assert kinds.count(Fault.COST_MODEL) <= len(runs) // 8
    assert sum(found.as_projected for found in verdicts) >= len(runs) - 2
