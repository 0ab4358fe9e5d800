from dataclasses import replace

import pytest

from slicewise.cluster.cluster import Cluster, Link, load_cluster
from slicewise.fitting.parameters import parameters

STRATEGIES = ("data", "filter", "data+spatial")


def described(cluster: Cluster) -> dict[str, float]:
    return {parameter.name: parameter.value for parameter in parameters(cluster, STRATEGIES)}


def overlapping() -> Cluster:
    cluster = load_cluster("abci-v100")
    return replace(cluster, tuning=replace(cluster.tuning, overlap=0.6))


@pytest.mark.parametrize("number", range(len(described(overlapping()))))
def test_a_parameter_that_is_put_is_found_again_and_leaves_the_others(number: int) -> None:
    base = overlapping()
    parameter = list(parameters(base, STRATEGIES))[number]
    moved = described(parameter.put(base, 1.25 * parameter.value))
    assert moved == pytest.approx(described(base) | {parameter.name: 1.25 * parameter.value})


def test_a_bandwidth_keeps_the_ratios_of_measured_collectives() -> None:
    base = load_cluster("abci-v100")
    own = replace(base.tiers[0], collectives={"all_gather": Link(1e-6, 2 * base.tiers[0].bytes_per_s)})
    base = replace(base, tiers=(own, *base.tiers[1:]))
    bandwidth = next(item for item in parameters(base, ()) if item.name == "inter bandwidth")
    moved = bandwidth.put(base, 3 * bandwidth.value).tiers[0]
    assert moved.link("all_gather").bytes_per_s == 2 * moved.bytes_per_s
    assert moved.link("gradient") == base.tiers[0].link("gradient")


def test_what_a_framework_does_not_do_is_no_parameter() -> None:
    """No halo start-up, host path or overlap on a cluster that says nothing of them."""
    names = described(load_cluster("dgx-a100"))
    assert "halo start-up" not in names
    assert "bandwidth through the host" not in names
    assert "gradient exchange that does not hide" not in names
