"""A pipeline as a user asks for one: planned, edited by hand, run on real ranks."""

import json
from pathlib import Path

import pytest

from tests.validation.commands import assert_refused, document, slicewise, typed

MODELS = Path(__file__).parent / "small_models.py"
MODEL = f"{MODELS}:classifier"
CLUSTER = ("--cluster", "p100-4x4", "--devices", 2, "--batch", 32)


def test_a_pipeline_is_planned_edited_and_run_as_predicted(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    planned = document(
        slicewise(
            "plan", MODEL, *CLUSTER, "--strategy", "pipeline", "--segments", 8, "-o", path, "--json", cache=tmp_path
        )
    )
    assert planned["pipeline"]["micro_batches"] == 8
    first = planned["pipeline"]["stages"][0]
    first["last"] = "3" if first["last"] != "3" else "4"
    path.write_text(json.dumps(planned))
    ran = document(typed("run", path, "--check", "--iterations", 2, "--json", cache=tmp_path))
    assert ran["check"]["passed"]
    assert ran["check"]["gradients"] == 8
    assert ran["bytes_moved"] == ran["predicted"]["bytes_moved"]
    assert ran["bytes_moved"] == 2 * 32 * 8 * 8 * 8 * 4 + 8
    assert ran["collectives"]["send"] == 8


def test_the_table_shows_the_stages(tmp_path: Path) -> None:
    shown = slicewise("plan", MODEL, *CLUSTER, "--strategy", "pipeline", "--segments", 4, cache=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "4 micro-batches of 8" in shown.stdout


@pytest.mark.long
def test_what_a_pipeline_cannot_do_is_refused_in_one_line(tmp_path: Path) -> None:
    pipeline = ("plan", MODEL, *CLUSTER, "--strategy", "pipeline")
    assert_refused(
        slicewise(*pipeline, "--segments", 5, cache=tmp_path), "32 samples do not divide into 5 micro-batches"
    )
    assert_refused(
        slicewise(*pipeline, "--cost", "optcnn", cache=tmp_path), "--cost optcnn has no price for a pipeline"
    )
    path = tmp_path / "plan.json"
    assert slicewise(*pipeline, "-o", path, cache=tmp_path).returncode == 0
    assert_refused(slicewise("explain", path, cache=tmp_path), "a pipeline plan slices no layer")
    many = slicewise("plan", MODEL, "--cluster", "p100-4x4", "--strategy", "pipeline", cache=tmp_path)
    assert many.returncode == 1
    assert "stages at most" in many.stderr
