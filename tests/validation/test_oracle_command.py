"""`slicewise oracle` and `slicewise provision` as a user types them."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.validation.commands import assert_refused, document, slicewise

ABCI = ("resnet50", "--cluster", "abci-v100")
WEAK = ("--batch-per-device", "32")


def test_rows_with_the_names_that_others_rely_on(tmp_path: Path) -> None:
    done = slicewise(
        "oracle", *ABCI, *WEAK, "--devices", "1,4,...,64", "--dataset", "imagenet", "--json", cache=tmp_path
    )
    rows = document(done)["rows"]
    assert {row["devices"] for row in rows} == {1, 4, 16, 64}
    assert {
        "strategy", "devices", "batch", "split", "compute_s", "update_s", "communication_s", "communication",
        "iteration_s", "low_s", "high_s", "epoch_s", "samples_per_s", "efficiency", "memory_bytes", "feasible",
        "reason", "best",
    } == rows[0].keys()  # fmt: skip
    assert sum(row["best"] for row in rows) == 4
    assert done.stderr == ""


def test_tables_paragraph_and_limits_for_people(tmp_path: Path) -> None:
    done = slicewise("oracle", *ABCI, *WEAK, "--devices", "16", "--best", "--limits", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "data *" in done.stdout
    assert "What binds" in done.stdout
    assert "Use data (N16) on 16 devices" in done.stdout
    assert "data still gains at" in done.stdout or "data stops paying at" in done.stdout


def test_json_of_best_and_limits(tmp_path: Path) -> None:
    done = slicewise("oracle", *ABCI, *WEAK, "--devices", "16", "--best", "--limits", "--json", cache=tmp_path)
    found = document(done)
    assert found["best"]["row"]["strategy"] == "data"
    assert found["best"]["why"].startswith("Use data")
    assert {"strategy", "devices", "limit", "cost_s", "cost_bytes", "binds", "told"} == found["limits"][0].keys()
    assert {"strategy", "devices", "reason"} == found["stops_paying"][0].keys()


def test_csv_and_a_split(tmp_path: Path) -> None:
    done = slicewise(
        "oracle",
        *ABCI,
        *WEAK,
        "--devices",
        "16",
        "--strategies",
        "data+filter",
        "--split",
        "4x4",
        "--csv",
        cache=tmp_path,
    )
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["strategy"], row["split"]) == ("data+filter", "4x4")


def test_nothing_feasible_is_a_no(tmp_path: Path) -> None:
    done = slicewise(
        "oracle", *ABCI, "--batch", "2", "--devices", "16", "--strategies", "data", "--best", cache=tmp_path
    )
    assert done.returncode == 1
    assert "samples: a batch of 2 does not reach 16 devices" in done.stdout


def test_layerwise_reports_to_standard_error_only(tmp_path: Path) -> None:
    done = slicewise(
        "oracle", "lenet5", "--cluster", "p100-4x4", *WEAK, "--devices", "4", "--layerwise", "--json", cache=tmp_path
    )
    assert document(done)["rows"][-1]["strategy"] == "layerwise"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--devices", "0"), "must be a positive whole number (got '0')"),
        (("--devices", "4,...,64"), "dots need two counts before them"),
        (("--devices", "4", "--split", "4"), "must look like 16x4"),
        (("--devices", "4", "--software", "fast"), "unknown software 'fast'; choose from plain, tuned"),
        (("--devices", "4", "--strategies", "dta"), "unknown strategy 'dta'; choose from"),
        (("--devices", "4", "--engine", "magic"), "unknown engine 'magic'"),
        (("--devices", "4", "--dataset", "imagnet"), "unknown data set 'imagnet'"),
        (("--devices", "4", "--dtype", "bf16"), "has no bf16"),
        (("--devices", "4", "--csv", "--json"), "one document at a time"),
        (("--devices", "4", "--engine", "slicewise", "--forms"), "of the engine paradl (got slicewise)"),
        (("--devices", "4", "--batch", "64"), "not allowed with argument"),
        ((), "--devices"),
    ],
)
def test_bad_requests_get_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    assert_refused(slicewise("oracle", *ABCI, *WEAK, *arguments, cache=tmp_path), told)


def test_provision_lists_the_frontier(tmp_path: Path) -> None:
    done = slicewise(
        "provision", *ABCI, "--dataset", "imagenet", "--epochs", "90", "--deadline", "12h", "--price", "2.5", "--json",
        cache=tmp_path,
    )  # fmt: skip
    options = document(done)["options"]
    assert {
        "devices", "nodes", "strategy", "split", "batch", "hours", "low_hours", "high_hours", "node_hours",
        "device_hours", "cost", "low_cost", "high_cost", "efficiency", "deadline_chance", "good", "input_bytes_per_s",
        "warnings",
    } == options[0].keys()  # fmt: skip
    assert all(option["hours"] <= 12 for option in options)
    assert [o["hours"] for o in options] == sorted((o["hours"] for o in options), reverse=True)
    assert [o["cost"] for o in options] == sorted(o["cost"] for o in options)


def test_provision_says_what_would_do_where_nothing_does(tmp_path: Path) -> None:
    done = slicewise("provision", *ABCI, "--samples", "1000000", "--epochs", "90", "--gpu-hours", "1", cache=tmp_path)
    assert done.returncode == 1
    assert "nothing keeps 1 device-hour: the fastest is" in done.stdout


@pytest.mark.parametrize("budget", [(), ("--gpu-hours", "100")])
def test_provision_tells_the_best_chance_where_only_the_range_reaches_the_deadline(
    budget: tuple[str, ...], tmp_path: Path
) -> None:
    asked = (
        "provision", "resnet50", "--cluster", "dgx-a100", "--samples", "1281167", "--epochs", "90", "--dtype", "fp16",
        "--batch-per-device", "256", "--devices", "8,16", "--deadline", "1h", *budget,
    )  # fmt: skip
    done = slicewise(*asked, "--json", cache=tmp_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["options"], told["dtype"], told["input"]) == ([], "fp16", [[3, 224, 224]])
    found = re.search(
        r"nothing keeps 1 hour.*best chance to keep the deadline is (\d+)%: (\d+) devices", told["missed"]
    )
    assert found
    assert 5 < int(found[1]) < 50
    assert int(found[2]) == 16
    assert "--software plain or --software tuned" in told["missed"]
    known = slicewise(*asked, "--software", "plain", cache=tmp_path)
    assert "best chance to keep the deadline" in known.stdout
    assert "which software trains" not in known.stdout
    hopeless = slicewise(*asked[:-2], "--deadline", "1min", cache=tmp_path)
    assert "None has a chance to keep the deadline." in hopeless.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--epochs", "90"), "--dataset"),
        (("--dataset", "imagenet"), "--epochs"),
        (("--dataset", "imagenet", "--epochs", "-1"), "must be a positive number"),
        (("--dataset", "imagenet", "--epochs", "1", "--deadline", "soon"), "must look like 90s"),
    ],
)
def test_provision_refuses_half_a_question(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    assert_refused(slicewise("provision", *ABCI, *arguments, cache=tmp_path), told)


@pytest.mark.parametrize("step", ["64", "0=0.2s", "64=nan"])
@pytest.mark.parametrize("command", [("oracle", *ABCI, *WEAK, "--devices", "4"), ("plan", *ABCI)])
def test_a_measured_step_that_is_none_is_one_line(command: tuple[str, ...], step: str, tmp_path: Path) -> None:
    assert_refused(slicewise(*command, "--measured", step, cache=tmp_path), "must look like 64=0.1996s")


def test_a_measured_step_is_recorded_with_the_machine(tmp_path: Path) -> None:
    step = ("--measured", "64=0.2s")
    told = document(slicewise("oracle", *ABCI, *WEAK, "--devices", "4", *step, "--json", cache=tmp_path))
    assert (told["measured"]["batch"], told["measured"]["seconds"]) == (64, 0.2)
    asked = ("--devices", "2", "--strategy", "data", *step, "--json")
    plan = document(slicewise("plan", *ABCI, *asked, cache=tmp_path))
    assert plan["machine"]["measured"] == told["measured"]
    assert plan["predicted"]["high_s"] / plan["predicted"]["low_s"] < 2
