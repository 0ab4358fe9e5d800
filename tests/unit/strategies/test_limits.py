"""What holds strategies back, and the words for it."""

from dataclasses import replace

import pytest

from slicewise.cluster.tuning import Tuning
from slicewise.strategies.limits import Limit, last_paying, limits_of
from slicewise.strategies.projecting import oracle
from slicewise.strategies.ranking import verdict
from tests.builders import machine, small_cnn


def limits(strategy: str, devices: int, **request: object) -> dict[str, Limit]:
    asked = {"batch_per_device": 4, **request}
    table = oracle(small_cnn(), machine(4, 4), devices=[devices], strategies=[strategy], **asked)  # type: ignore[arg-type]
    return {limit.name: limit for limit in limits_of(table.oracle, table.rows[0])}


def test_terms_of_the_projection_are_limits_with_their_seconds() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[4], batch=16)
    for row in table:
        if row.terms:
            found = {limit.name: limit.cost_s for limit in limits_of(table.oracle, row)}
            assert found.get("gradient exchange", 0.0) == row.terms.gradient_s
            assert found.get("layer-wise collectives", 0.0) == row.terms.layerwise_s
            assert found.get("peer-to-peer exchange", 0.0) == row.terms.halo_s + row.terms.p2p_s
            assert found.get("weight update", 0.0) == row.terms.update_s


def test_congestion_is_what_ports_for_everybody_would_save() -> None:
    crowded = limits("data", 16)["network congestion"]
    assert crowded.cost_s is not None
    # four devices of a node share one port of 1e9 B/s: three quarters of the time between nodes
    weights = sum(weight.size for weight in small_cnn().weights)
    assert crowded.cost_s == pytest.approx(2 * 3 / 16 * (4 - 1) * weights * 4 / 1e9)
    assert "network congestion" not in limits("data", 4)


def test_redundancy_and_balance_belong_to_the_strategies_that_have_them() -> None:
    assert limits("channel", 2)["computation redundancy"].cost_s
    assert limits("pipeline", 2)["workload balance"].cost_s
    assert "computation redundancy" not in limits("data", 2)
    assert limits("filter", 2)["staging of input"].cost_s
    assert "staging of input" not in limits("data", 2)
    spare = limits("data", 2)["memory redundancy"].cost_bytes
    weights = sum(weight.size for weight in small_cnn().weights)
    assert spare == pytest.approx(2 * 4 * weights / 2)  # a second copy of weights and gradients, shared by two


def test_a_network_too_small_for_twice_the_devices_says_so() -> None:
    assert "conv0 has 8, too few for 16" in limits("filter", 8)["number of devices"].told


def test_a_strategy_stops_paying_where_throughput_no_longer_rises() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[4], batch=16)
    for name in ("data", "spatial", "filter", "owt"):
        stop = last_paying(table.oracle, name)
        assert stop is not None
        if stop.reason and "samples/s" in stop.reason:
            at, next_ = (table.oracle.project(name, count).samples_per_s for count in (stop.devices, 2 * stop.devices))
            assert next_ <= at
    stop = last_paying(table.oracle, "data")
    assert stop is not None
    assert stop.devices <= 16
    assert last_paying(table.oracle, "serial") is None


def test_quick_links_let_data_pay_until_the_batch_ends() -> None:
    cluster = machine(64)
    quick = replace(cluster, tiers=tuple(replace(t, latency_s=1e-12, bytes_per_s=1e15) for t in cluster.tiers))
    table = oracle(small_cnn(), quick, devices=[4], batch=16, strategies=["data"])
    stop = last_paying(table.oracle, "data")
    assert stop is not None
    assert (stop.devices, stop.reason) == (16, "on 32, samples: a batch of 16 does not reach 32 devices")


def test_the_verdict_names_winner_runner_up_and_limit() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[4], batch_per_device=64)
    told, best = verdict(table), table.best(4)
    assert best is not None
    others = [row for row in table if row.feasible and row is not best]
    runner_up = min(others, key=lambda row: row.iteration_s)
    assert told.startswith(f"Use {best.strategy} (")
    assert f"Next comes {runner_up.strategy} with" in told
    assert "What limits it is" in told


def test_the_verdict_warns_of_compute_that_shrinks_with_the_shard() -> None:
    warned = "thin shards do not reach"
    for cluster, expected in (
        (machine(4), True),
        (replace(machine(4), tuning=Tuning(fixed_compute={"filter": 0.5, "spatial": 0.1})), False),
    ):
        table = oracle(small_cnn(), cluster, devices=[4], batch=64, strategies=["spatial"])
        assert (warned in verdict(table)) is expected
    assert warned not in verdict(oracle(small_cnn(), machine(4), devices=[4], batch=64, strategies=["data"]))


def test_the_verdict_without_any_way_gives_every_reason() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[4], batch=2, strategies=["data", "serial"])
    assert verdict(table).startswith("Nothing is possible. serial on 4: devices")
    assert "data on 4: samples: a batch of 2 does not reach 4 devices" in verdict(table)
