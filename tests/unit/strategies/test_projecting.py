"""The oracle's table: rows, marks, ranges, scaling."""

import csv
import io
import subprocess
import sys
from dataclasses import replace
from math import hypot

import pytest

import slicewise as sw
from slicewise.cluster.cluster import Cluster
from slicewise.cluster.ranges import fitted_ranges
from slicewise.cluster.tuning import Tuning
from slicewise.errors import RequestError, UnknownName
from slicewise.graph.sources import load_graph
from slicewise.strategies.projecting import ProjectionTable, oracle
from slicewise.strategy import STRATEGIES
from tests.builders import Net, machine, residual_net, small_cnn

FIELDS = {
    "strategy", "devices", "batch", "split", "compute_s", "update_s", "communication_s", "communication", "iteration_s",
    "low_s", "high_s", "epoch_s", "samples_per_s", "efficiency", "memory_bytes", "feasible", "reason", "best",
}  # fmt: skip


def small_table(**request: object) -> ProjectionTable:
    return oracle(small_cnn(), machine(2, 4), **{"devices": [1, 2, 8], "batch_per_device": 4} | request)  # type: ignore[arg-type]


def test_every_strategy_has_a_row_at_every_count() -> None:
    table = small_table()
    assert [(row.devices, row.strategy) for row in table] == [
        (count, name) for count in (1, 2, 8) for name in STRATEGIES
    ]
    document = table.to_dict()
    assert all(row.keys() == FIELDS for row in document["rows"])
    assert {"gradient_s", "layerwise_s", "halo_s", "p2p_s"} == document["rows"][1]["communication"].keys()


def test_the_document_says_what_was_asked() -> None:
    asked = {"dtype": "fp16", "optimizer": "adam", "recompute": True, "batchnorm": "exact", "overlap": False}
    table = oracle("resnet50", "dgx-a100", devices=[1], batch=8, strategies=["serial"], memory_limit="8GiB", **asked)  # type: ignore[arg-type]
    found = table.to_dict()
    assert {name: found[name] for name in asked} == asked | {"overlap": 0.0}
    assert (found["input"], found["memory_limit_bytes"]) == ([[3, 224, 224]], 8 * 2**30)
    assert small_table().to_dict()["overlap"] is None


def test_parts_add_up_and_epochs_count_the_smaller_last_batch() -> None:
    for row in small_table(samples=100):
        if row.terms:
            found = row.to_dict()
            assert found["communication_s"] == pytest.approx(sum(found["communication"].values()))
            assert found["iteration_s"] == pytest.approx(found["compute_s"] + found["communication_s"])
            assert found["epoch_s"] == pytest.approx(-(-100 // row.batch) * row.iteration_s)
            assert found["samples_per_s"] == pytest.approx(row.batch / row.iteration_s)


def test_the_best_of_each_count_is_marked_and_on_one_device_it_is_serial() -> None:
    table = small_table()
    for count in (1, 2, 8):
        rows = [row for row in table if row.devices == count]
        (best,) = (row for row in rows if row.best)
        assert best.iteration_s <= min(row.iteration_s for row in rows if row.feasible) * (1 + 1e-8)
    assert table.best(1).strategy == "serial"  # type: ignore[union-attr]


def test_weak_scaling_grows_the_batch_and_strong_scaling_does_not() -> None:
    assert {row.batch for row in small_table()} == {4, 8, 32}
    strong = small_table(batch_per_device=None, batch=16)
    assert {row.batch for row in strong} == {16}
    assert strong.to_dict()["scaling"] == "strong"
    serial = next(row for row in strong if row.strategy == "serial" and row.terms)
    assert serial.efficiency == pytest.approx(1.0)


def test_four_devices_may_share_a_sample() -> None:
    table = small_table(batch_per_device=0.25, devices=[4, 8])
    assert {row.batch for row in table} == {1, 2}
    assert {row.strategy: row.feasible for row in table if row.devices == 4}["data"] is False
    with pytest.raises(RequestError, match=r"0.25 on 2 devices is a batch of 0.5"):
        small_table(batch_per_device=0.25, devices=[2])


def test_what_does_not_fit_keeps_its_figures_and_is_never_best() -> None:
    table = small_table(memory_limit=1000)
    rows = [row for row in table if row.terms]
    assert rows
    assert all((row.reason or "").startswith("memory: needs") and row.iteration_s > 0 for row in rows)
    assert table.best() is None


def test_a_memory_limit_makes_hybrids_choose_another_split() -> None:
    net = Net()
    features = net.flatten(net.conv(net.input(4, 3, 8, 8), 8))
    net.output(net.linear(net.linear(features, 64), 64))
    free, tight = (
        oracle(net.graph, machine(4, 4), devices=[16], batch=32, strategies=["data+filter"], memory_limit=limit)
        for limit in (None, 125_000)
    )
    assert [(row.terms.split, row.feasible) for row in (*free, *tight) if row.terms] == [("2x8", True), ("4x4", True)]


def test_ranges_follow_the_origin_of_the_figures() -> None:
    margins = []
    for cluster in (
        machine(8),
        replace(machine(8), origin="fitted"),
        replace(machine(8), origin="fitted", tuning=Tuning(margin=0.05)),
        replace(machine(8), origin="fitted", tuning=Tuning(margin=0.05, networks=("resnet50",))),
    ):
        row = oracle(small_cnn(), cluster, devices=[2], batch=8, strategies=["data"]).rows[0]
        assert row.low_s < row.iteration_s < row.high_s
        margins.append(row.high_s / row.iteration_s - 1)
    assert margins[1:3] == pytest.approx([0.6, 0.05], rel=1e-2)
    assert margins[0] > margins[1]
    assert margins[3] > 4 * margins[2]  # a network that was not fitted


def test_a_range_is_made_of_what_is_uncertain() -> None:
    known = fitted_ranges()
    (gpu,) = oracle("resnet50", "dgx-a100", devices=[1], batch=32, strategies=["serial"])
    assert gpu.sigma == pytest.approx(hypot(known.network, known.unseen))
    assert gpu.doubt.unlike == ()
    (toy,) = oracle(load_graph("resnet50"), machine(8), devices=[1], batch=32, strategies=["serial"])
    assert toy.sigma == pytest.approx(hypot(known.network, known.unseen, known.device))
    assert toy.doubt.unlike == ("nobody timed toy",)
    (words,) = oracle("textcnn", "dgx-a100", devices=[1], batch=32, strategies=["serial"])
    assert words.sigma > 1.5 * gpu.sigma
    assert "1-D convolutions" in words.doubt.unlike[0]


@pytest.mark.parametrize("network", ["vit_b_16", "swin_t"])
def test_transformers_are_unlike_published_runs_and_have_wider_ranges(network: str) -> None:
    known = fitted_ranges()
    (row,) = oracle(network, "dgx-a100", devices=[1], batch=32, strategies=["serial"])
    told = " ".join(row.doubt.unlike)
    assert "linear layers on several positions" in told
    assert "attention layers" in told
    seen = hypot(known.network, known.unseen)
    assert 1.2 * seen < row.sigma <= hypot(seen, known.tokens + 0.05)


def test_wide_depth_wise_windows_are_unlike_published_runs() -> None:
    told = {}
    for kernel in (5, 7):
        net = Net()
        net.conv(net.input(8, 32, 28, 28), 32, kernel=kernel, padding=kernel // 2, groups=32)
        (row,) = oracle(net.graph, "dgx-a100", devices=[1], batch=8, strategies=["serial"])
        told[kernel] = row.doubt.unlike
    assert told[5] == ()
    assert "depth-wise windows wider than 5" in told[7][0]


def test_communication_widens_a_range_by_its_share() -> None:
    rows = {row.strategy: row for row in oracle("resnet50", "abci-v100", devices=[64], batch_per_device=32)}
    assert rows["filter"].sigma > rows["data"].sigma
    assert rows["filter"].chance(rows["filter"].iteration_s) == pytest.approx(0.5)
    assert rows["data"].chance(rows["data"].high_s) == pytest.approx(0.95, abs=0.001)


def test_a_measured_step_scales_compute_and_narrows_the_range() -> None:
    asked = {"devices": [1, 8], "batch_per_device": 64, "strategies": ["data"]}
    plain, timed = (oracle("resnet50", "dgx1-v100", measured=step, **asked) for step in (None, (64, 0.25)))  # type: ignore[arg-type]
    assert timed.rows[0].iteration_s == pytest.approx(0.25)
    assert timed.rows[1].to_dict()["communication"] == plain.rows[1].to_dict()["communication"]
    assert timed.rows[1].sigma < plain.rows[1].sigma / 1.5
    assert timed.to_dict()["measured"]["batch"] == 64
    assert "time one device at batch 64" in plain.to_dict()["measure_next"]["measure"]
    assert timed.to_dict()["measure_next"] is None


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ((0, 1.0), "as (64, 0.1996) (got (0, 1.0))"),
        ((64, -1.0), "as (64, 0.1996)"),
        ((64, float("nan")), "as (64, 0.1996)"),
        (64, "as (64, 0.1996) (got 64)"),
        ((64, 3600.0), "measured 64=3,600 s: one A100-80 is predicted to take"),
    ],
)
def test_a_step_that_cannot_be_is_refused_in_one_line(step: object, complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        oracle("resnet50", "dgx-a100", devices=[8], batch=64, measured=step)  # type: ignore[arg-type]
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_below_what_a_clock_ticks_is_told() -> None:
    table = oracle("resnet50", "dgx-a100", devices=[8], batch_per_device=32, engine="slicewise", strategies=["data"])
    assert all(row.terms is None or row.terms.gradient_s == 0 or row.terms.gradient_s > 1e-9 for row in table)
    assert "e-" not in str(table)


def test_csv_has_the_kinds_of_communication_as_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(small_table().to_csv())))
    assert len(rows) == 3 * len(STRATEGIES)
    assert rows[0].keys() == FIELDS - {"communication"} | {"gradient_s", "layerwise_s", "halo_s", "p2p_s"}


def test_layerwise_comes_last_and_beats_every_plan_that_needs_no_search() -> None:
    table = small_table(layerwise=True, engine="slicewise", devices=[4])
    rows = list(table)
    assert rows[-1].strategy == "layerwise"
    assert rows[-1].iteration_s <= min(row.iteration_s for row in rows if row.feasible) * (1 + 1e-9)


def test_plans_are_not_ranked_against_closed_forms() -> None:
    table = small_table(layerwise=True, devices=[4])
    assert not next(row for row in table if row.strategy == "layerwise").best
    assert "closed forms" in str(table)


def test_layerwise_is_a_row_of_the_printed_table_and_no_column() -> None:
    table = oracle("lenet5", "p100-4x4", batch=16, devices=[2], strategies=["filter"])
    assert any(row.terms and row.terms.layerwise_s for row in table)
    assert "layerwise" not in str(table)
    assert "collectives" in str(table)


def test_the_printed_table_names_the_best_and_the_impossible() -> None:
    text = str(small_table())
    assert "serial *" in text
    assert "Not possible on 2, 8 devices: serial (it uses one)." in text
    assert "Range, of data on 8 devices: 90 %," in text


def test_without_overlap_every_term_counts_in_full() -> None:
    weights = sum(weight.size for weight in load_graph("alexnet").weights)
    for engine in ("paradl", "slicewise"):
        with_, without = (
            oracle(
                load_graph("alexnet"), _quick(machine(4)), devices=[4], batch=64, strategies=["data"], engine=engine,
                overlap=flag,
            ).rows[0].terms
            for flag in (True, False)
        )  # fmt: skip
        assert with_ is not None
        assert without is not None
        assert with_.iteration_s < without.iteration_s
        assert without.gradient_s == pytest.approx(2 * 3 / 4 * weights * 4 / 1e9, rel=1e-6)


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"strategies": ["dta"]}, "unknown strategy 'dta'; choose from"),
        ({"engine": "magic"}, "unknown engine 'magic'; choose from paradl, slicewise"),
        ({"dataset": "imagnet"}, "unknown data set 'imagnet'"),
    ],
)
def test_unknown_names_list_the_known_ones(request_: dict[str, object], told: str) -> None:
    with pytest.raises(UnknownName, match=told):
        small_table(**request_)


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"batch": 8}, "either a batch for all devices"),
        ({"batch_per_device": None}, "either a batch for all devices"),
        ({"dataset": "mnist", "samples": 5}, "give one of them"),
        ({"devices": []}, "devices must be from 1 to 65,536"),
        ({"devices": [0, 4]}, "devices must be from 1 to 65,536"),
        ({"devices": [3.5]}, r"devices must be whole numbers \(got 3.5\)"),
        ({"devices": ["4"]}, r"devices must be whole numbers \(got '4'\)"),
        ({"devices": 4}, r"devices must be a list of counts, as \[4\]"),
        ({"batch_per_device": None, "batch": 2.5}, r"`batch` must be a positive whole number \(got 2.5\)"),
        ({"batch_per_device": None, "batch": 0}, r"`batch` must be a positive whole number \(got 0\)"),
        ({"batch_per_device": "4"}, r"`batch_per_device` must be a positive number \(got '4'\)"),
        ({"batch_per_device": -4}, r"`batch_per_device` must be a positive number \(got -4\)"),
        ({"samples": 0.5}, r"`samples` must be a positive whole number \(got 0.5\)"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(request_: dict[str, object], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        small_table(**request_)


def test_plans_take_the_split_asked_for() -> None:
    splits = {}
    for split in ((2, 4), (4, 2)):
        table = oracle(
            small_cnn(),
            machine(2, 4),
            devices=[8],
            batch=8,
            strategies=["data+filter"],
            engine="slicewise",
            split=split,
        )
        assert table.rows[0].terms is not None
        splits[split] = table.rows[0].terms.split
    assert splits == {(2, 4): "N2 F4", (4, 2): "N4 F2"}
    other = oracle(
        small_cnn(), machine(2, 4), devices=[8], batch=8, strategies=["data+filter"], engine="slicewise", split=(2, 2)
    )
    assert other.rows[0].reason == "split: 2x2 does not make 8 devices"


def test_fewer_samples_than_devices_rule_out_plans_with_local_norms_and_nothing_else() -> None:
    """Local is the oracle's default: what it cannot have is a reason, not the end."""
    table = oracle(residual_net(), machine(8), devices=[2, 8], batch=4, engine="slicewise", layerwise=True)
    impossible = [row for row in table if row.devices == 8]
    assert {"spatial", "filter", "layerwise"} <= {row.strategy for row in impossible}
    assert all(
        "use batchnorm exact" in str(row.reason) for row in impossible if row.strategy not in ("serial", "pipeline")
    )
    assert all(row.feasible for row in table if row.devices == 2 and row.strategy in ("data", "spatial", "filter"))


def test_networks_of_any_kind_have_an_answer() -> None:
    """Without linear layers, without space, with depth-wise convolutions, without any matrix product."""
    depthwise, flat, plain = Net("depthwise"), Net("flat"), Net("plain")
    depthwise.output(depthwise.conv(depthwise.conv(depthwise.input(4, 8, 8, 8), 8, groups=8), 16, kernel=1, padding=0))
    flat.output(flat.linear(flat.linear(flat.input(4, 16), 32), 8))
    plain.output(plain.pool(plain.relu(plain.input(4, 4, 8, 8))))
    for net in (depthwise, flat, plain):
        for engine in ("paradl", "slicewise"):
            table = oracle(net.graph, machine(2, 4), devices=[1, 4, 8], batch=8, engine=engine)
            assert all(row.feasible or row.reason for row in table)
            assert table.best(8) is not None
            assert str(table)


def test_it_is_public_and_needs_no_torch() -> None:
    assert sw.oracle is oracle
    code = (
        "import sys, slicewise as sw\n"
        "for engine in ('paradl', 'slicewise'):\n"
        "    table = sw.oracle(sw.load_graph('alexnet'), 'abci-v100', batch=32, devices=[4], engine=engine)\n"
        "    str(table), table.to_csv()\n"
        "from slicewise.cli.main import main\n"
        "request = ['alexnet', '--cluster', 'abci-v100', '--batch', '64']\n"
        "assert main(['oracle', *request, '--devices', '4', '--best', '--limits']) == 0\n"
        "assert main(['provision', *request, '--samples', '1000', '--epochs', '1']) == 0\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _quick(cluster: Cluster) -> Cluster:
    """Links without start-up time."""
    return replace(cluster, tiers=tuple(replace(tier, latency_s=1e-15) for tier in cluster.tiers))
