"""`slicewise plan` as a user types it: training, memory, pins, spaces."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.validation.commands import assert_refused, slicewise

P100 = ("--cluster", "p100-4x4", "--batch", "128")


def planned(cache: Path, *options: str, model: str = "alexnet") -> dict[str, Any]:
    done = slicewise("plan", model, *P100, *options, "--json", cache=cache)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_json_has_the_names_that_others_rely_on(tmp_path: Path) -> None:
    plan = planned(tmp_path, "--devices", "4")
    assert {"schema_version", "model", "cluster", "devices", "batch", "dtype", "optimizer", "batchnorm"} <= plan.keys()
    predicted = {
        "iteration_s", "additive_s", "simulated_s", "compute_s", "transfer_s", "halo_s", "reduce_s", "sync_s",
        "update_s", "samples_per_s", "bytes_moved", "peak_memory_bytes",
    }  # fmt: skip
    assert predicted <= plan["predicted"].keys()
    assert set(plan["baselines"]) == {"data", "filter", "spatial", "owt"}
    assert all(predicted | {"feasible", "reason"} <= row.keys() for row in plan["baselines"].values())
    assert {
        "objective", "space", "constraints", "method", "optimal", "gap", "layers", "configurations", "space_size",
        "surviving", "remaining_nodes", "tables_s", "search_s",
    } <= plan["certificate"].keys()  # fmt: skip
    assert plan["certificate"]["optimal"] is True
    assert all({"name", "kind", "slicing", "degrees", "cost"} <= layer.keys() for layer in plan["layers"])


def test_a_plan_that_fits_nowhere_says_by_how_much_and_what_would_fit(tmp_path: Path) -> None:
    done = slicewise("plan", "vgg16", *P100, "--memory-limit", "500MB", cache=tmp_path)
    assert done.returncode == 1
    assert "more than the limit of 500 MB" in done.stderr
    assert "would fit: --recompute" in done.stderr or "--devices 32" in done.stderr


def test_a_limit_makes_the_plan_smaller_and_no_faster(tmp_path: Path) -> None:
    free = planned(tmp_path, "--devices", "4")
    limit = int(free["predicted"]["peak_memory_bytes"] * 0.97)
    tight = planned(tmp_path, "--devices", "4", "--memory-limit", str(limit))
    assert tight["predicted"]["peak_memory_bytes"] <= limit
    assert tight["predicted"]["additive_s"] >= free["predicted"]["additive_s"]
    assert any("per device" in constraint for constraint in tight["certificate"]["constraints"])


def test_pins_hold_and_are_named_in_the_certificate(tmp_path: Path) -> None:
    plan = planned(tmp_path, "--devices", "4", "--fix", "features.*=NH", "--forbid", "C")
    features = [layer for layer in plan["layers"] if layer["name"].startswith("features")]
    assert features
    assert all(layer["degrees"]["N"] > 1 and layer["degrees"]["H"] > 1 for layer in features)
    assert all(layer["degrees"]["C"] == 1 for layer in plan["layers"])
    assert plan["certificate"]["constraints"][:2] == ["fix features.*=NH", "forbid *=C"]


def test_the_frontier_runs_from_fast_to_small(tmp_path: Path) -> None:
    plans = planned(tmp_path, "--devices", "4", "--pareto")["plans"]
    times = [plan["predicted"]["iteration_s"] for plan in plans]
    memory = [plan["predicted"]["peak_memory_bytes"] for plan in plans]
    assert len(plans) >= 2
    assert times == sorted(times)
    assert memory == sorted(memory, reverse=True)


def test_halves_of_precision_halve_what_travels_between_layers(tmp_path: Path) -> None:
    whole, half = (planned(tmp_path, "--devices", "4", "--fix", "*=F", "--dtype", dtype) for dtype in ("fp32", "fp16"))
    whole_bytes, half_bytes = (sum(layer["cost"]["transfer_bytes"] for layer in p["layers"]) for p in (whole, half))
    assert half["dtype"] == "fp16"
    assert 2 * half_bytes == whole_bytes


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--dtype", "bf16"), "P100 has no bf16; choose from fp32, fp16"),
        (("--dtype", "int3"), "unknown dtype 'int3'"),
        (("--optimizer", "lion"), "unknown optimizer 'lion'; choose from adam, momentum, sgd"),
        (("--fix", "fetures.*=N"), "no layer matches 'fetures.*'"),
        (("--fix", "features.*=Z"), "'Z' are no dims"),
        (("--cost", "optcnn"), "use it with --space optcnn"),
        (("--space", "half"), "unknown space 'half'; choose from full, optcnn"),
        (("--memory-limit", "much"), "must look like 8GiB"),
        (("--software", "fast"), "unknown software 'fast'; choose from plain, tuned"),
        (("--objective", "glory"), "unknown objective 'glory'; choose from memory, time"),
        (("--gap", "7"), "must be a share such as 0.01"),
    ],
)
def test_a_wrong_option_gets_one_line_and_code_2(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    assert_refused(slicewise("plan", "alexnet", *P100, *options, cache=tmp_path), told)


def test_local_norms_need_a_sample_per_device(tmp_path: Path) -> None:
    options = ("--cluster", "p100-4x4", "--batch", "8", "--batchnorm", "local")
    assert_refused(slicewise("plan", "resnet50", *options, cache=tmp_path), "8 samples do not reach 16 ranks; use")
