"""The fit against machines that are known because they are made up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster, load_cluster, parse_cluster
from slicewise.cluster.writing import to_toml
from slicewise.fitting.fit import fit
from slicewise.fitting.parameters import parameters
from slicewise.fitting.projecting import Projector
from slicewise.fitting.runs import Run
from slicewise.strategies.projecting import oracle
from tests.campaigns import LONG

PROJECTOR = Projector()
SMALL, LARGE = (8, 16, 32), (128, 512)
STRATEGIES = ("serial", "data", "filter", "channel", "data+filter")
MOVED = (
    "compute efficiency",
    "compute that stays in shards",
    "inter latency",
    "inter bandwidth",
    "inter bandwidth, gradients",
    "bandwidth through the host",
)


def design(counts: tuple[int, ...]) -> list[Run]:
    """Runs that tell the parameters apart: two networks, four strategies, small and large batches."""
    made = []
    for model, batch in (("alexnet", 64), ("vgg16", 16)):
        made.append(Run(model=model, strategy="serial", devices=1, batch=batch, iteration_s=1.0))
        for devices in counts:
            weak, split = batch * devices, (devices // 4, 4)
            made += [
                Run(model=model, strategy="data", devices=devices, batch=weak, iteration_s=1.0),
                Run(model=model, strategy="data+filter", devices=devices, batch=weak, iteration_s=1.0, split=split),
            ]
            if devices <= 32:
                made += [
                    Run(model=model, strategy=strategy, devices=devices, batch=batch, iteration_s=1.0)
                    for strategy in ("filter", "channel")
                ]
    return made


def measured(runs: list[Run], machine: Cluster) -> list[Run]:
    times = PROJECTOR.seconds(runs, machine)
    return [replace(run, iteration_s=float(time)) for run, time in zip(runs, times, strict=True)]


def machine(moves: dict[str, float]) -> Cluster:
    cluster = base = load_cluster("abci-v100")
    for parameter in parameters(base, STRATEGIES):
        if parameter.name in moves:
            cluster = parameter.put(cluster, parameter.value * float(np.exp(moves[parameter.name])))
    return cluster


@settings(max_examples=5 if LONG else 1)
@given(st.fixed_dictionaries({name: st.floats(-0.5, 0.5) for name in MOVED}))
def test_known_parameters_are_found_again(moves: dict[str, float]) -> None:
    """From runs without noise, taken at their word."""
    truth = machine(moves)
    learned = fit(measured(design(SMALL), truth), load_cluster("abci-v100"), PROJECTOR, sigma=1e-4, distrust=3)
    for item in learned.parameters:
        if item.name in moves:
            assert np.log(item.value / item.preset) == pytest.approx(moves[item.name], abs=0.05), item.name
    larger = design(LARGE)
    assert PROJECTOR.seconds(larger, learned.cluster) == pytest.approx(PROJECTOR.seconds(larger, truth), rel=0.03)


@settings(max_examples=3 if LONG else 1)
@given(st.fixed_dictionaries({name: st.floats(-0.3, 0.3) for name in MOVED}), st.integers(0, 2**32 - 1))
def test_noise_stays_within_what_the_fit_admits(moves: dict[str, float], seed: int) -> None:
    """Runs that scatter by 5 %: parameters within three of their deviations, larger runs near the truth."""
    truth = machine(moves)
    noise = np.exp(np.random.default_rng(seed).normal(0, 0.05, len(design(SMALL))))
    runs = [
        replace(run, iteration_s=run.iteration_s * float(factor))
        for run, factor in zip(measured(design(SMALL), truth), noise, strict=True)
    ]
    learned = fit(runs, load_cluster("abci-v100"), PROJECTOR)
    for item in learned.parameters:
        if item.runs:
            true = moves.get(item.name, 0.0)
            assert abs(np.log(item.value / item.preset) - true) <= 3 * item.deviation, item.name
    larger = design(LARGE)
    ratio = PROJECTOR.seconds(larger, learned.cluster) / PROJECTOR.seconds(larger, truth)
    assert np.abs(np.log(ratio)).mean() < 0.15


def test_what_no_run_speaks_about_stays_at_its_preset() -> None:
    base = load_cluster("abci-v100")
    learned = fit([Run(model="alexnet", strategy="serial", devices=1, batch=64, iteration_s=0.05)], base, PROJECTOR)
    silent = [item for item in learned.parameters if not item.runs]
    assert {item.name for item in silent} >= {"inter latency", "inter bandwidth", "halo start-up"}
    assert all(item.value == item.preset for item in silent)
    assert learned.cluster.tiers == base.tiers
    assert learned.cluster.origin == "fitted"


def test_one_absurd_run_does_not_move_the_others() -> None:
    """Beyond a few sigma a run pulls with constant force."""
    base = load_cluster("abci-v100")
    runs = measured(design(SMALL), base)
    absurd = [replace(runs[5], iteration_s=20 * runs[5].iteration_s)]
    learned = fit([*runs[:5], *absurd, *runs[6:]], base, PROJECTOR)
    others = [*learned.projected_s[:5], *learned.projected_s[6:]]
    assert others == pytest.approx([run.iteration_s for run in [*runs[:5], *runs[6:]]], rel=0.15)


def test_measured_parts_of_an_iteration_are_believed() -> None:
    """With compute and communication given, the same iteration time leads elsewhere."""
    base = load_cluster("abci-v100")
    run = Run(model="alexnet", strategy="data", devices=16, batch=1024, iteration_s=0.08)
    computing = fit([replace(run, compute_s=0.07, communication_s=0.01)], base, PROJECTOR).cluster
    talking = fit([replace(run, compute_s=0.03, communication_s=0.05)], base, PROJECTOR).cluster
    assert computing.device.efficiency["conv"] < talking.device.efficiency["conv"]
    assert computing.tiers[0].link("gradient").bytes_per_s > talking.tiers[0].link("gradient").bytes_per_s


@pytest.mark.parametrize("factor", [4.0, 0.25])
@pytest.mark.parametrize("others", [(), ("resnet50",)])
def test_a_network_may_take_four_times_what_the_preset_says(factor: float, others: tuple[str, ...]) -> None:
    """One run of each is enough; a network beside it keeps its own pace."""
    base = load_cluster("dgx-a100")
    runs = [Run(model=name, strategy="serial", devices=1, batch=64, iteration_s=1.0) for name in ("alexnet", *others)]
    first, *rest = measured(runs, base)
    first = replace(first, iteration_s=factor * first.iteration_s)
    learned = fit([first, *rest], base, PROJECTOR)
    assert learned.projected_s[0] == pytest.approx(first.iteration_s, rel=0.25)
    assert learned.projected_s[1:] == pytest.approx([run.iteration_s for run in rest], rel=0.05)
    paces = learned.cluster.tuning.compute
    assert set(paces) == ({"alexnet", *others} if others else set())
    assert abs(sum(np.log(list(paces.values())))) < 0.1  # what they have in common is the device's
    left = parse_cluster(to_toml(learned.cluster), "written")
    assert PROJECTOR.seconds([first, *rest], left) == pytest.approx(learned.projected_s, rel=1e-3)  # written short


def test_networks_that_lie_far_apart_widen_the_range_of_others() -> None:
    base = load_cluster("dgx-a100")
    names = ("alexnet", "resnet50")
    runs = measured([Run(model=m, strategy="serial", devices=1, batch=64, iteration_s=1.0) for m in names], base)
    spoiled = [replace(runs[0], iteration_s=4 * runs[0].iteration_s), runs[1]]
    near, far = (fit(some, base, PROJECTOR).cluster for some in (runs, spoiled))
    widths = []
    for cluster in (near, far):
        (row,) = oracle("vgg16", cluster, devices=[1], batch=64, strategies=["serial"])
        widths.append(row.high_s / row.low_s)
    assert widths[1] > widths[0] > 1.5**2


def test_memory_reuse_is_the_median_of_what_was_measured() -> None:
    base = load_cluster("dgx-a100")
    runs = [Run(model="alexnet", strategy="serial", devices=1, batch=batch, iteration_s=0.01) for batch in (32, 64, 96)]
    counted = [terms.memory_bytes for terms in PROJECTOR.terms(runs, base)]
    given = [
        replace(run, memory_bytes=factor * held)
        for run, held, factor in zip(runs, counted, (1.2, 1.3, 9.0), strict=True)
    ]
    learned = fit(given, base, PROJECTOR)
    assert learned.cluster.tuning.memory_reuse == pytest.approx(1.3)
    told = next(item for item in learned.parameters if item.name == "memory held over counted")
    assert (told.runs, told.preset) == (3, 1.0)
    assert fit(runs, base, PROJECTOR).cluster.tuning.memory_reuse == 1.0
