"""Faults really brought about in runs of two ranks, found in what the runs wrote.

They are strong ones: the tests share a machine. benchmarks/diagnose has weaker ones, and runs without any.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from benchmarks.diagnose.trial import planned, trial
from benchmarks.throughput.hosts import why_not
from slicewise.cluster.cluster import load_cluster
from slicewise.cost.prediction import Prediction
from slicewise.diagnosis.diagnosis import Diagnosis, diagnosis_of
from slicewise.diagnosis.expectation import expectation_of
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.verdict import Fault
from slicewise.graph.sources import load_graph
from slicewise.plans.plan import Plan
from tests.distributed.world import World
from tests.machines import CORE, tier, write_cores
from tests.synthetic_runs import expected

SINCE, STEPS = 12, 24
LIKE_THIS = replace(
    CORE,
    peak_flops_per_s=5e10,
    kernel_s=1e-5,
    efficiency={"conv": 1.0, "conv_backward": 1.0, "linear": 0.5, "linear_backward": 0.5},
)

pytestmark = pytest.mark.skipif(shutil.which("taskset") is None, reason="ranks are pinned by taskset")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose")
    link = tier("node", latency_s=2e-4, bytes_per_s=3e8)
    return planned(folder, write_cores(folder / "pair.toml", link, device=LIKE_THIS))


def diagnosed(plan: Path, *files: Path) -> Diagnosis:
    made = Plan.load(plan)
    graph = load_graph(made.model, made.input_shape)
    return diagnosis_of(read_files(files), expectation_of(made, graph, load_cluster(made.cluster)))


def likely(step_s: float, seconds: Mapping[str, float] = {}) -> Prediction:
    return Prediction(iteration_s=step_s, low_s=step_s / 1.6, high_s=step_s * 1.6, seconds=seconds, origin="fitted")


def test_a_rank_that_shares_its_core_is_the_slow_one_in_the_json_and_in_the_timeline(
    plan: Path, tmp_path: Path
) -> None:
    run = trial(plan, tmp_path, fault="slow rank", since=SINCE, processes=3, steps=STEPS, link=False)
    for file in (run, tmp_path / "trace.json"):
        slow = next(verdict for verdict in diagnosed(plan, file).verdicts if verdict.kind is Fault.SLOW_RANK)
        assert (slow.term, slow.ranks) == ("compute", (1,))
        assert slow.since_step is not None
        assert abs(slow.since_step - SINCE) <= 2
        assert slow.factor > 1.5
    steps = read_files([tmp_path / "iterations.csv"])
    usual = likely(float(np.median(steps.seconds["step"][:SINCE])))  # whatever this machine makes of the plan
    whole = diagnosis_of(steps, replace(expected(), step=usual)).verdicts[0]  # the costliest
    assert whole.kind is Fault.SLOWDOWN
    assert Fault.SLOW_RANK in whole.alternatives


def test_a_loader_that_delays_is_found_beside_the_steps(plan: Path, tmp_path: Path) -> None:
    run = trial(plan, tmp_path, fault="input staging", rank=0, since=SINCE, steps=STEPS, link=False)
    for file in (run, tmp_path / "trace.json"):
        late = next(verdict for verdict in diagnosed(plan, file).verdicts if verdict.kind is Fault.STAGING)
        assert (late.ranks, late.since_step) == ((0,), SINCE)
        assert late.excess_s == pytest.approx(0.05, rel=0.2)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_throttled_link_is_told_from_slow_ranks(plan: Path, tmp_path: Path) -> None:
    run = trial(plan, tmp_path, fault="slow link", since=SINCE, steps=STEPS, link=True)
    for file in (run, tmp_path / "trace.json"):
        slow = diagnosed(plan, file).verdicts[0]  # the costliest
        assert (slow.kind, slow.term, slow.since_step) == (Fault.SLOW_LINK, "sync", SINCE)
        assert slow.factor > 3


@pytest.mark.long
def test_a_clean_run_is_as_another_clean_run_lets_expect(plan: Path, tmp_path: Path) -> None:
    first = read_files([trial(plan, tmp_path, link=False)])
    moving, compute = first.communication, first.seconds["compute"].min(axis=1)
    assert moving is not None
    seconds = {"compute": float(np.median(compute)), "update": float(np.median(first.seconds["update"]))}
    seconds |= {"exposed_sync": float(np.median(moving))}
    projected = replace(expected(), step=likely(float(np.median(first.seconds["step"])), seconds))
    again = tmp_path / "again"
    again.mkdir()
    trial(plan, again, link=False)
    for file in ("run.json", "trace.json", "iterations.csv"):
        (verdict,) = diagnosis_of(read_files([again / file]), projected).verdicts
        assert verdict.kind is Fault.NONE, (file, verdict)


def _profiled(folder: str) -> None:
    """16 steps under torch.profiler; from step 9 on, as the profiler counts, rank 1 has eight times the work."""
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Linear(512, 512))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    samples = torch.zeros(256, 512)
    once = schedule(wait=0, warmup=1, active=16, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=once) as profiler:
        for step in range(17):
            repeats = 48 if dist.get_rank() == 1 and step >= 9 else 6
            optimizer.zero_grad()
            with torch.no_grad():
                for _ in range(repeats):
                    net.module(samples)
            net(samples).sum().backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(f"{folder}/rank{dist.get_rank()}.json")


def test_profiler_traces_of_all_ranks_tell_who_waits_for_whom(pair: World, tmp_path: Path) -> None:
    pair.run(_profiled, str(tmp_path))
    record = read_files([tmp_path / "rank1.json", tmp_path / "rank0.json"])
    assert record.ranks == (0, 1)
    assert record.steps == tuple(range(1, 17))
    verdicts = diagnosis_of(record, expected()).verdicts
    slow = max((v for v in verdicts if v.kind is Fault.SLOW_RANK), key=lambda verdict: verdict.excess_s)
    assert (slow.ranks, slow.since_step) == ((1,), 9)
    assert slow.factor > 2
    waited = record.seconds["wait"][8:]
    assert np.median(waited[:, 0]) > 10 * np.median(waited[:, 1])
