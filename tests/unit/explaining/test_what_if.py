"""Plans for another machine or job."""

from pathlib import Path

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import PLAIN
from slicewise.errors import InfeasibleError, RequestError
from slicewise.explaining.differences import compare
from slicewise.explaining.what_if import Job, what_if
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan, plan
from slicewise.plans.plan import Plan


@pytest.fixture(scope="module")
def alexnet() -> Plan:
    return plan(load_graph("alexnet"), "p100-4x4", batch=512, fix=["features.*=N"])


@pytest.fixture
def job() -> Job:
    return Job(cluster=load_cluster("p100-4x4"), batch=512, training=PLAIN, memory_limit_bytes=None)


@pytest.mark.parametrize(
    ("text", "bandwidth", "latency"),
    [
        ("inter.bandwidth=2x", 22e9, 5e-6),
        ("inter.bandwidth=25GB/s", 25e9, 5e-6),
        ("inter.latency=0.5x", 11e9, 2.5e-6),
        ("inter.latency=10us", 11e9, 10e-6),
    ],
)
def test_links_change_by_a_factor_or_to_an_amount(job: Job, text: str, bandwidth: float, latency: float) -> None:
    tier = job.changed(text).cluster.tiers[0]
    assert (tier.bytes_per_s, tier.latency_s) == pytest.approx((bandwidth, latency))


def test_jobs_change_too(job: Job) -> None:
    assert job.changed("batch=64").batch == 64
    assert job.changed("devices=8").cluster.devices == 8
    assert job.changed("memory=8GiB").memory_limit_bytes == 8 * 2**30
    assert job.changed("optimizer=adam").training.optimizer == "adam"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batch", "write NAME=VALUE"),
        ("batch=many", "must be a positive whole number"),
        ("memory=much", "must look like 8GiB"),
        ("outer.bandwidth=2x", "unknown tier 'outer'; choose from inter, intra"),
        ("inter.width=2x", "unknown property of a tier 'width'"),
        ("inter.bandwidth=fast", "bandwidth must look like 2x or 25GB/s"),
        ("inter.latency=0x", "latency must look like 0.5x or 5us"),
        ("colour=red", "unknown change 'colour'"),
        ("dtype=fp8", "unknown dtype 'fp8'"),
    ],
)
def test_a_change_that_makes_no_sense_is_told(job: Job, text: str, told: str) -> None:
    with pytest.raises(RequestError, match=told):
        job.changed(text)


def test_what_changes_nothing_keeps_every_layer(alexnet: Plan) -> None:
    answer = what_if(alexnet, ["inter.bandwidth=1x"])
    assert answer.kept == answer.before == answer.after.predicted
    assert answer.comparison.changes == ()


def test_planning_again_is_never_worse_than_keeping_and_pins_hold(alexnet: Plan) -> None:
    answer = what_if(alexnet, ["inter.bandwidth=100x", "intra.bandwidth=10x"])
    assert answer.kept is not None
    assert answer.after.predicted["additive_s"] <= answer.kept["additive_s"] < answer.before["additive_s"]
    assert all(
        answer.after.slicings[name] == alexnet.slicings[name]
        for name in alexnet.slicings
        if name.startswith("features")
    )
    assert answer.comparison.saved_s == pytest.approx(answer.kept["additive_s"] - answer.after.predicted["additive_s"])


def test_slicings_that_cannot_be_kept_are_told(alexnet: Plan) -> None:
    answer = what_if(alexnet, ["devices=8"])
    assert answer.kept is None
    assert "the cluster's (2, 2, 2)" in answer.reason
    assert answer.comparison.differences is None
    assert answer.after.devices == 8


def test_too_little_memory_is_infeasible(alexnet: Plan) -> None:
    with pytest.raises(InfeasibleError, match="would fit"):
        what_if(alexnet, ["memory=50MB"])


def test_plans_for_different_networks_are_not_compared(alexnet: Plan, tmp_path: Path) -> None:
    other = baseline_plan(load_graph("vgg16"), load_cluster("p100-4x4"), "data", batch=512)
    with pytest.raises(RequestError, match="alexnet and vgg16 are different networks"):
        compare(alexnet, other)
