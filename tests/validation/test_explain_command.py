"""`slicewise explain`, as a person and as a program call it."""

import json
from pathlib import Path

import pytest

from tests.validation.commands import assert_refused, document, slicewise


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """AlexNet on 4 devices: the best plan, and data parallelism."""
    folder = tmp_path_factory.mktemp("plans")
    request = ("plan", "alexnet", "--cluster", "p100-4x4", "--devices", 4, "--batch", 64)
    best, data = folder / "best.json", folder / "data.json"
    assert slicewise(*request, "-o", best, cache=folder).returncode == 0
    assert slicewise(*request, "--strategy", "data", "-o", data, cache=folder).returncode == 0
    return best, data


def test_what_matters_most_comes_first_in_words(plans: tuple[Path, Path], tmp_path: Path) -> None:
    shown = slicewise("explain", plans[0], cache=tmp_path)
    assert shown.returncode == 0
    words = " ".join(shown.stdout.split())
    assert "1. classifier.1 is sliced by" in words
    assert "of gradient all-reduce" in words
    assert words.index("What matters most") < words.index("flips at")
    told = document(slicewise("explain", plans[0], "--json", cache=tmp_path))
    assert len(told["summary"]) == 3
    worth = [decision["worth_s"] for decision in told["decisions"]]
    first = next(row for row in told["decisions"] if row["layers"] == ["classifier.1"])
    assert first["worth_s"] == max(worth)
    assert first["sentence"] == told["summary"][0]
    assert first["reference"]["saved"]["sync"] > 0


def test_one_layer_is_told_term_by_term(plans: tuple[Path, Path], tmp_path: Path) -> None:
    shown = slicewise("explain", plans[0], "--layer", "classifier.1", cache=tmp_path)
    assert "(chosen)" in shown.stdout
    assert "(data)" in shown.stdout
    assert "(next best)" in shown.stdout


def test_two_plans_differ_by_what_their_differences_are_worth(plans: tuple[Path, Path], tmp_path: Path) -> None:
    best, data = plans
    told = document(slicewise("explain", data, best, "--json", cache=tmp_path))
    assert told["saved_s"] > 0
    assert sum(row["saved_s"] for row in told["differences"]) == pytest.approx(told["saved_s"])
    assert " less work than A. Work is compute and communication;" in " ".join(
        slicewise("explain", data, best, cache=tmp_path).stdout.split()
    )


def test_an_edited_plan_says_which_slicing_would_be_better(plans: tuple[Path, Path], tmp_path: Path) -> None:
    edited = json.loads(plans[0].read_text())
    linear = next(layer for layer in edited["layers"] if layer["name"] == "classifier.4")
    linear["slicing"] = {"intra0": "N", "intra1": "N"}
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(edited))
    told = document(slicewise("explain", path, "--layer", "classifier.4", "--json", cache=tmp_path))
    (decision,) = told["decisions"]
    assert decision["runner_up"]["saved_s"] < 0
    assert decision["runner_up"]["iteration_s"] < told["predicted"]["iteration_s"]
    assert "a step would be" in decision["sentence"]
    assert "shorter" in decision["sentence"]
    assert decision["flips"] == []


def test_what_if_writes_the_plan_it_finds(plans: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "eight.json"
    asked = ("explain", plans[0], "--what-if", "devices=8,batch=128", "-o", path)
    told = document(slicewise(*asked, "--json", cache=tmp_path))
    assert told["kept"] is None
    assert json.loads(path.read_text())["devices"] == 8
    assert slicewise("explain", path, cache=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--layer", "fc9"), "no layer is called 'fc9'"),
        (("--layer", "classifier.1", "--what-if", "batch=8"), "--layer and --what-if are different questions"),
        (("--what-if", "inter.bandwidth=2x"), "unknown tier 'inter'; choose from intra"),
        (("-o", "plan.json"), "-o writes the plan of --what-if"),
        (("absent.json",), "absent.json: no such plan"),
    ],
)
def test_a_wrong_question_gets_one_line(
    plans: tuple[Path, Path], arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    assert_refused(slicewise("explain", plans[0], *arguments, cache=tmp_path), told)
