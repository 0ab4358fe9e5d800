"""What ranges are made of after a fit, after a measurement, and for what nobody has run."""

from dataclasses import replace
from math import exp, hypot, log
from typing import Any

import pytest

from slicewise.cluster.cluster import Cluster, Measured, load_cluster, parse_cluster
from slicewise.cluster.ranges import QUANTILE, fitted_ranges
from slicewise.cluster.tuning import NEUTRAL, Tuning
from slicewise.cost.uncertainty import Case, Doubt, doubt_of
from slicewise.strategies.projecting import oracle
from tests.builders import Net, machine, small_cnn

KNOWN = fitted_ranges()
LEFT = log(1.15) / QUANTILE
SEEN = Tuning(margin=0.15, networks=("net",), strategies=("serial", "data", "filter"), dtypes=("fp32",), most_devices=8)
CASE = Case(model="net", strategy="data", dtype="fp32", optimizer="sgd", devices=8, batch=64)
TIMED = Measured(model="net", batch=64, seconds=0.2, factor=1.1)


def doubt(case: Case, tuning: Tuning = SEEN, measured: Measured | None = None) -> Doubt:
    return doubt_of(case, fitted(tuning, measured), Doubt)


def fitted(tuning: Tuning, measured: Measured | None = None) -> Cluster:
    return replace(machine(8), origin="fitted", tuning=tuning, measured=measured)


@pytest.mark.parametrize(
    "case", [CASE, replace(CASE, strategy="filter", devices=4), replace(CASE, devices=128), replace(CASE, devices=1)]
)
def test_what_was_fitted_has_the_range_that_the_fit_left(case: Case) -> None:
    assert doubt(case) == Doubt(whole=LEFT, parts=(("what the fit left", LEFT),))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"strategy": "data+spatial"}, "data+spatial was not fitted, only serial, data, filter"),
        ({"strategy": None}, "plans were not fitted, only serial, data, filter"),
        ({"devices": 129}, "129 devices are more than 16 times the 8 that were fitted"),
    ],
)
def test_links_that_a_fit_has_not_seen_are_as_uncertain_as_any(changed: dict[str, Any], told: str) -> None:
    found = doubt(replace(CASE, **changed))
    assert (found.whole, found.compute, found.communication) == (LEFT, 0.0, KNOWN.communication)
    assert found.unlike == (told,)


def test_runs_on_one_device_say_nothing_of_links() -> None:
    alone = replace(SEEN, strategies=("serial",), most_devices=1)
    assert doubt(replace(CASE, devices=2), alone).communication == KNOWN.communication
    assert "nothing was fitted on more than one device" in doubt(CASE, alone).unlike
    assert doubt(replace(CASE, devices=1), alone) == Doubt(whole=LEFT, parts=(("what the fit left", LEFT),))


def test_compute_in_another_dtype_is_as_uncertain_as_that_of_another_network() -> None:
    found = doubt(replace(CASE, dtype="fp16"))
    assert (found.whole, found.communication) == (LEFT, 0.0)
    assert found.compute == hypot(KNOWN.network, KNOWN.unseen)
    assert found.unlike == ("fp16 was not fitted, only fp32",)
    assert "this dtype" in found.told


def test_a_file_that_does_not_say_what_was_fitted_means_what_it_meant() -> None:
    silent = replace(SEEN, strategies=(), dtypes=(), most_devices=None)
    assert doubt(replace(CASE, strategy="owt", dtype="fp16", devices=4096), silent).sigma(1, 1) == LEFT


def test_a_measurement_beside_a_fit_takes_the_place_of_what_the_fit_does_not_know() -> None:
    assert doubt(CASE, measured=TIMED) == doubt(CASE)
    before, after = doubt(replace(CASE, model="other")), doubt(replace(CASE, model="other"), measured=TIMED)
    assert (after.whole, after.compute, after.communication) == (LEFT, KNOWN.measured, KNOWN.communication)
    assert after.compute < before.compute
    assert after.unlike == before.unlike


def test_timing_layers_widens_no_range_that_a_fit_left() -> None:
    assert doubt(CASE).after_timing(0.5) == doubt(CASE)


@pytest.mark.parametrize("tuning", [SEEN, NEUTRAL])
def test_the_step_that_was_measured_is_off_by_what_two_runs_differ_by(tuning: Tuning) -> None:
    found = doubt(replace(CASE, devices=1), tuning, TIMED)
    assert found.range_of(0.2, 0.0)["high_s"] == pytest.approx(0.2 * exp(QUANTILE * KNOWN.repeated))
    assert doubt(replace(CASE, devices=1, batch=32), tuning, TIMED).sigma(1, 0) > 2 * KNOWN.repeated


@pytest.mark.parametrize("change", [{"optimizer": "adam"}, {"model": "other"}])
def test_another_step_on_one_device_is_not_the_one_that_was_measured(change: dict[str, Any]) -> None:
    timed = replace(TIMED, dtype="fp32", optimizer="sgd")
    found = doubt(replace(CASE, devices=1, **change), NEUTRAL, timed)
    assert found.compute == KNOWN.measured


def test_a_measurement_says_nothing_of_another_dtype() -> None:
    timed, unknown = replace(TIMED, dtype="fp32", optimizer="sgd"), Doubt(compute=1.0)
    cluster = replace(machine(8), measured=timed)
    assert doubt_of(replace(CASE, dtype="fp16", devices=1), cluster, lambda: unknown) == unknown
    assert doubt(replace(CASE, dtype="fp16"), measured=timed) == doubt(replace(CASE, dtype="fp16"))


@pytest.mark.parametrize("engine", ["paradl", "slicewise"])
def test_ones_own_number_comes_back_nearly_as_it_was(engine: str) -> None:
    (row,) = oracle(
        "resnet50", "dgx1-v100", devices=[1], batch=64, strategies=["serial"], measured=(64, 0.1996), engine=engine
    )
    assert row.high_s / row.iteration_s == pytest.approx(1.05, abs=0.005)
    assert row.prediction.high_s == pytest.approx(row.high_s)


def test_measuring_what_was_fitted_is_not_advised() -> None:
    table = oracle(small_cnn(), fitted(replace(SEEN, networks=())), devices=[8], batch=64, strategies=["data"])
    assert table.to_dict()["measure_next"] is None


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ({"kernel": 11, "padding": 5}, None),
        ({"kernel": 31, "padding": 15}, "dense windows wider than 11"),
        ({"kernel": 14, "stride": 14, "padding": 0}, None),
        ({"kernel": 3, "padding": 4, "dilation": 4}, "dilated windows"),
        ({"kernel": 1, "dilation": 4}, None),
        ({"kernel": 7, "padding": 3, "groups": 32}, "depth-wise windows wider than 5"),
    ],
)
def test_windows_that_no_published_run_has_are_named(layer: dict[str, Any], told: str | None) -> None:
    net = Net()
    net.conv(net.input(8, 32, 28, 28), 32, **layer)
    (row,) = oracle(net.graph, "dgx-a100", devices=[1], batch=8, strategies=["serial"])
    assert row.doubt.unlike == (() if told is None else (f"100% of compute is in {told}",))


def test_software_that_changes_nothing_is_no_doubt() -> None:
    (row,) = oracle("resnet50", load_cluster("dgx1-v100"), devices=[1], batch=32, strategies=["serial"])
    assert row.doubt.other_software == 1


@pytest.mark.parametrize(
    ("device", "timed"),
    [
        ('"V100-16"', True),
        ('{ like = "V100-16", memory_bytes = 8e9 }', True),
        ('{ like = "V100-16", memory_bytes_per_s = 9e12 }', False),
        ('{ like = "H100", peak_flops_per_s = 4e15 }', False),
        ('{ like = "V100-16", name = "mine" }', False),
        ('"RTX-3090"', False),
    ],
)
def test_a_device_that_nobody_timed_has_a_wider_range(device: str, timed: bool) -> None:
    text = f'name = "mine"\ndevice = {device}\n[[tiers]]\nname = "wire"\nsize = 2\nlatency_s = 1e-6\nbytes_per_s = 1e9'
    (row,) = oracle(small_cnn(64), parse_cluster(text, "mine.toml"), devices=[1], batch=64, strategies=["serial"])
    assert (row.high_s / row.iteration_s > 1.9) != timed
