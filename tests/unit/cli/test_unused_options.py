"""An option that the chosen mode does not use is refused by name, before any work."""

import json
from pathlib import Path

import pytest

from slicewise.cli.main import main
from slicewise.cli.spelling import as_typed
from slicewise.plans.plan import Plan

PLAN = ["plan", "lenet5", "--cluster", "p100-4x4", "--devices", "2", "--batch", "64"]
SEARCHED = {
    "--space": "full",
    "--dims-per-layer": "2",
    "--dims-per-tier": "1",
    "--memory-limit": "8GiB",
    "--objective": "time",
    "--fix": "*=N",
    "--forbid": "C",
    "--time-limit": "5s",
    "--gap": "0",
    "--search": "elimination",
}
NOT_PARETO = {
    "--strategy": "layerwise",
    "--segments": "4",
    "--cost": "analytic",
    "--memory-limit": "8GiB",
    "--objective": "time",
    "--time-limit": "5s",
    "--gap": "0.1",
    "--search": "elimination",
    "--figure": "plan.svg",
    "--trace": "plan.trace.json",
}


def refusal(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main([*PLAN, *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.parametrize("option", NOT_PARETO)
def test_the_frontier_refuses_what_it_does_not_use(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "--pareto", option, NOT_PARETO[option])
    assert f"--pareto does not use {option}; leave it out" in told


@pytest.mark.parametrize("strategy", ["data", "owt", "pipeline"])
@pytest.mark.parametrize("option", SEARCHED)
def test_a_strategy_refuses_what_belongs_to_a_search(
    strategy: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, "--strategy", strategy, option, SEARCHED[option])
    assert f"--strategy {strategy} does not use {option}; leave it out" in told


@pytest.mark.parametrize("strategy", ["layerwise", "data"])
def test_segments_are_refused_where_there_is_no_pipeline(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "--strategy", strategy, "--segments", "4")
    assert f"--strategy {strategy} does not use --segments; leave it out" in told


def test_several_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "--strategy", "data", "--fix", "*=N", "--gap", "0.1")
    assert "does not use --fix and --gap; leave them out" in told


def test_an_unknown_strategy_is_told_before_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown strategy 'sideways'" in refusal(capsys, "--strategy", "sideways", "--gap", "0.1")


def test_the_frontier_is_written_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plans"
    assert main([*PLAN, "--pareto", "-o", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["plans"]
    written = [Plan.load(path) for path in sorted(folder.iterdir())]
    assert [made.to_dict() for made in written] == told
    assert len(written) >= 2


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plans").write_text("mine")
    assert "plans" in refusal(capsys, "--pareto", "-o", str(tmp_path / "plans"))
    assert (tmp_path / "plans").read_text() == "mine"


ORACLE = ("oracle", "lenet5", "--cluster", "p100-4x4", "--devices", "4", "--batch", "64")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ((*ORACLE, "--csv", "--best"), "--csv does not use --best; leave it out"),
        ((*ORACLE, "--csv", "--limits", "--wide"), "--csv does not use --limits and --wide; leave them out"),
        ((*ORACLE, "--csv", "--forms"), "--csv does not use --forms; leave it out"),
        (
            (*ORACLE, "--split", "2x2", "--strategies", "data"),
            "--split 2x2 is of hybrids, not of data; leave it out, or give data+filter, data+spatial, data+sequence",
        ),
        (
            ("provision", "lenet5", "--cluster", "p100-4x4", "--epochs", "1", "--dataset", "cifar10", "--devices", "4",
             "--strategies", "data,owt", "--split", "2x2"),
            "--split 2x2 is of hybrids, not of data, owt; leave it out",
        ),
        (("doctor", "--nproc-per-node", "4"), "--nproc-per-node 4: ranks are started for --network only; add it"),
        (("calibrate", "--profile-budget", "3min"), "--profile-budget is for --layers PLAN.json"),
        (("calibrate", "--layers", "plan.json", "--quick"), "--layers does not use --quick; leave it out"),
        ((*PLAN, "--trust"), "--trust is for an exported program (.pt2), and lenet5 is none; leave it out"),
        ((*ORACLE, "--trust"), "--trust is for an exported program (.pt2), and lenet5 is none; leave it out"),
        (("capture", "lenet5", "--trust", "-o", "graph.json"), "--trust is for an exported program (.pt2)"),
        (
            (*PLAN, "--search", "exhaustive", "--gap", "0.5"),
            "--search exhaustive does not use --gap; leave it out",
        ),
    ],
    ids=lambda part: " ".join(part[-3:]) if isinstance(part, tuple) else "",
)  # fmt: skip
def test_what_would_change_nothing_is_refused(
    command: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(command)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"slicewise: {told}" in said.err.splitlines()[-1]


def test_commands_spell_options_as_they_are_typed() -> None:
    said = 'use `batchnorm="exact"`, `recompute=True`, `memory_limit` or `devices=32`; `run` is a command'
    assert as_typed("`measured=(64, TIME)` or `calibrate_from`", {"measured"}) == (
        "--measured 64=TIME or slicewise calibrate --from"
    )
    assert as_typed(said, {"batchnorm", "recompute", "memory_limit", "devices"}) == (
        "use --batchnorm exact, --recompute, --memory-limit or --devices 32; `run` is a command"
    )
