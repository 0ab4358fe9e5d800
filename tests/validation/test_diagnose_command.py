"""`slicewise diagnose` as a user types it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.machines import write_cores
from tests.validation.commands import assert_refused, document, slicewise


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cores(tmp_path_factory.mktemp("diagnose") / "pair.toml")


@pytest.fixture(scope="module")
def plan(cluster: Path) -> Path:
    path = cluster.parent / "plan.json"
    arguments = ("plan", "lenet5", "--cluster", cluster, "--strategy", "data", "--batch", 8, "-o", path)
    assert slicewise(*arguments, cache=cluster.parent).returncode == 0
    return path


def step_s(plan: Path) -> float:
    seconds: float = json.loads(plan.read_text())["predicted"]["iteration_s"]
    return seconds


def times(folder: Path, seconds: list[float]) -> Path:
    path = folder / "times.csv"
    path.write_text("\n".join(["iteration_s", *map(str, seconds)]))
    return path


def run_document(plan: Path, folder: Path, slow: float) -> Path:
    """As `slicewise run` writes it: rank 1 takes `slow` times as long from step 10 on, rank 0 waits for it."""
    predicted = json.loads(plan.read_text())["predicted"]
    compute = np.full((20, 2), predicted["compute_s"])
    compute[10:, 1] *= slow
    sync, update = (np.full((20, 2), predicted[name]) for name in ("exposed_sync_s", "update_s"))
    wait = compute.max(axis=1, keepdims=True) - compute
    terms = {"compute": compute, "wait": wait, "sync": sync, "update": update, "step": compute + wait + sync + update}
    table = {term: values.tolist() for term, values in terms.items()}
    path = folder / "run.json"
    path.write_text(json.dumps({"model": "lenet5", "devices": 2, "batch": 8, "steps_s": table}))
    return path


def test_a_run_as_projected_ends_with_0_and_says_so(plan: Path, tmp_path: Path) -> None:
    done = slicewise("diagnose", plan, "--measured", run_document(plan, tmp_path, 1.0), "--json", cache=tmp_path)
    found = document(done)
    assert found["as_projected"]
    assert [verdict["kind"] for verdict in found["verdicts"]] == ["as projected"]
    assert found["projected"]["low_s"] < found["measured"]["iteration_s"]["median"] < found["projected"]["high_s"]
    assert found["files"][0]["can_tell"]
    assert found["files"][0]["cannot_tell"]


def test_a_slow_rank_ends_with_1_and_is_named(plan: Path, tmp_path: Path) -> None:
    file = run_document(plan, tmp_path, 3.0)
    done = slicewise("diagnose", plan, "--measured", file, "--json", cache=tmp_path)
    assert done.returncode == 1
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert {name: verdict[name] for name in ("kind", "term", "ranks", "since_step")} == {
        "kind": "slow rank",
        "term": "compute",
        "ranks": [1],
        "since_step": 10,
    }
    assert verdict["evidence"]["after_s"] > verdict["evidence"]["before_s"]
    told = slicewise("diagnose", plan, "--measured", file, cache=tmp_path)
    assert told.returncode == 1
    assert "slow rank: rank 1 takes" in told.stdout
    assert "since step 10" in told.stdout


def test_a_model_under_a_strategy_is_projected_for_a_csv(cluster: Path, plan: Path, tmp_path: Path) -> None:
    request = ("lenet5", "--strategy", "data", "--cluster", cluster, "--devices", 2, "--batch", 8)
    file = times(tmp_path, [step_s(plan)] * 10 + [2 * step_s(plan)] * 10)
    done = slicewise("diagnose", *request, "--measured", file, "--json", cache=tmp_path)
    assert done.returncode == 1
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert (verdict["kind"], verdict["since_step"]) == ("slowdown", 10)
    assert set(verdict["alternatives"]) == {"slow rank", "slow link", "congestion bursts", "input staging"}
    assert verdict["factor"] == pytest.approx(2)


@pytest.mark.parametrize("engine", ["slicewise", "paradl"])
def test_a_run_on_one_device_is_judged_as_serial(cluster: Path, tmp_path: Path, engine: str) -> None:
    asked = ("lenet5", "--cluster", cluster)
    one = (*asked, "--batch", 8, "--strategies", "serial", "--devices", 1, "--engine", engine)
    (row,) = document(slicewise("oracle", *one, "--json", cache=tmp_path))["rows"]
    file = times(tmp_path, [row["iteration_s"]] * 12)
    request = ("diagnose", *asked, "--batch", 8, "--strategy", "serial", "--engine", engine, "--measured", file)
    found = document(slicewise(*request, "--json", cache=tmp_path))
    assert (found["devices"], found["as_projected"]) == (1, True)
    assert_refused(slicewise(*request, "--devices", 2, cache=tmp_path), "--strategy serial is one device (got 2)")


def test_all_steps_off_alike_accuse_the_cost_model(plan: Path, tmp_path: Path) -> None:
    done = slicewise("diagnose", plan, "--measured", times(tmp_path, [5 * step_s(plan)] * 12), cache=tmp_path)
    assert done.returncode == 1
    assert "wrong cost model: steps take" in done.stdout
    assert "5.00 times the projected" in done.stdout


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batch": 16}, "measured with batch 16, the plan has 8; give the plan that ran"),
        ({"model": "vgg16"}, "measured with model vgg16, the plan has lenet5"),
        ({"devices": 4}, "measured with devices 4, the plan has 2"),
    ],
)
def test_a_run_of_another_plan_is_refused(plan: Path, tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    file = run_document(plan, tmp_path, 1.0)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert_refused(slicewise("diagnose", plan, "--measured", file, cache=tmp_path), reason)


def test_more_ranks_than_the_plan_has_are_refused(plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("rank0_s,rank2_s\n0.1,0.1\n")
    told = "has rank 2, the plan is for 2 devices"
    assert_refused(slicewise("diagnose", plan, "--measured", file, cache=tmp_path), told)


def test_an_absent_file_is_refused(plan: Path, tmp_path: Path) -> None:
    done = slicewise("diagnose", plan, "--measured", tmp_path / "absent.csv", cache=tmp_path)
    assert_refused(done, "absent.csv: no such file")


def test_a_strategy_is_judged_by_the_clusters_framework(tmp_path: Path) -> None:
    """Hybrids of `abci-v100` exchange layer by layer: the closed form says so, no plan does."""
    asked = ("resnet50", "--cluster", "abci-v100", "--devices", "16", "--batch", "256")
    split = ("--split", "4x4")
    rows = document(slicewise("oracle", *asked, "--strategies", "data+filter", *split, "--json", cache=tmp_path))[
        "rows"
    ]
    measured = ("--measured", times(tmp_path, [rows[0]["iteration_s"]] * 30))
    done = slicewise("diagnose", *asked, "--strategy", "data+filter", *split, *measured, "--json", cache=tmp_path)
    found = document(done)
    assert found["projected"]["iteration_s"] == pytest.approx(rows[0]["iteration_s"])
    assert found["projected"]["high_s"] == pytest.approx(rows[0]["high_s"])
    assert found["as_projected"]
    plan = ("--engine", "slicewise")
    as_plan = slicewise("diagnose", *asked, "--strategy", "data+filter", *plan, *measured, "--json", cache=tmp_path)
    assert json.loads(as_plan.stdout)["projected"]["iteration_s"] != pytest.approx(rows[0]["iteration_s"])


def test_a_split_needs_a_strategy_by_name(plan: Path, tmp_path: Path) -> None:
    measured = ("--measured", times(tmp_path, [0.1] * 10))
    assert_refused(slicewise("diagnose", plan, "--split", "2x2", *measured, cache=tmp_path), "--split: give a model")
