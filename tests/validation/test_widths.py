"""What every command shows to people, at any width."""

import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import ConsoleRenderable

from slicewise.cli.main import main
from slicewise.report.measured import show_run
from slicewise.text.page import Page, plain_text
from slicewise.text.tables import Table
from tests.machines import write_cores

UNIT = r" h \d+ min| (?:[mun]?s|min|[kMGT]?(?:B|FLOP)(?:/s)?)\b|x\b|%"
NUMBER = re.compile(rf"(?<![\w.,@#/^])[+-]?\d[\d.,]*(?:e[+-]\d+)?(?:{UNIT})?")
P100 = ("--cluster", "p100-4x4", "--batch", "512")
ABCI = ("resnet50", "--cluster", "abci-v100", "--batch-per-device", "32")
ORACLE = ("oracle", *ABCI, "--devices", "16,128", "--dataset", "imagenet")
PROVISION = ("provision", *ABCI, "--dataset", "imagenet", "--epochs", "90")
RUNS = "model,strategy,devices,batch,iteration_s\nalexnet,data,8,512,0.09\nalexnet,data,16,1024,0.095\n"
WIDTHS = (80, 100, 120)
COMMANDS = {
    "plan": ("plan", "alexnet", *P100),
    "pareto": ("plan", "lenet5", *P100, "--pareto"),
    "pipeline": ("plan", "alexnet", *P100, "--strategy", "pipeline", "--devices", "4"),
    "explain": ("explain", "PLAN"),
    "explain a layer": ("explain", "PLAN", "--layer", "classifier.1"),
    "explain two plans": ("explain", "PLAN", "DATA"),
    "explain what if": ("explain", "PLAN", "--what-if", "inter.bandwidth=4x"),
    "oracle": (*ORACLE, "--best", "--limits"),
    "oracle forms": (*ORACLE, "--forms"),
    "provision": (*PROVISION, "--price", "2.5"),
    "provision in time": (*PROVISION, "--price", "2.5", "--deadline", "20h"),
    "calibrate": ("calibrate", "--from", "RUNS"),
    "diagnose": ("diagnose", "lenet5", "--strategy", "data", "--cluster", "PAIR", "--batch", "64", "--measured", "CSV"),
    "cluster list": ("cluster", "list"),
    "cluster show": ("cluster", "show", "abci-v100"),
}
RAN: dict[str, Any] = {
    "model": "alexnet", "devices": 2, "batch": 16, "dtype": "fp32", "optimizer": "sgd", "first_nan_step": None,
    "check": {
        "note": "float64, dropout off", "gradients": 16, "passed": True, "max_relative_error": 4.5e-16,
        "worst": "classifier.6.weight", "tolerance": 1e-9,
    },
    "predicted": {
        "compute_s": 1.06, "transfer_s": 0.009, "iteration_s": 1.12, "peak_memory_bytes": 291e6,
        "bytes_moved": 21_589_504, "bytes_by_tier": {"inter": 21_589_504, "intra": 1_024},
    },
    "iteration_s": {"median": 1.4}, "compute_s": 1.34, "transfer_s": 0.0251, "halo_s": 0.0, "reduce_s": 0.0,
    "sync_s": 0.0136, "update_s": 0.0227, "bytes_moved": 21_589_504, "losses": [2.3, 2.2],
    "bytes_by_tier": {"inter": 21_589_504, "intra": 1_024}, "collectives": {"all_gather": 3, "all_reduce": 1},
    "peak_memory_bytes": [282e6, 280e6], "data_s": 0.0034, "drift": 1.27,
    "ddp": {
        "iteration_s": {"median": 1.99}, "bytes_moved": 489_000_000,
        "speedup": {"median": 1.44, "low": 1.32, "high": 1.55, "pairs": 4},
    },
}  # fmt: skip

Shown = Callable[[str], list[ConsoleRenderable]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """What a command puts on the page."""
    folder = tmp_path_factory.mktemp("widths")
    files = {name: folder / file for name, file in (("PLAN", "plan.json"), ("DATA", "data.json"), ("CSV", "steps.csv"))}
    files |= {"RUNS": folder / "runs.csv", "PAIR": write_cores(folder / "pair.toml")}
    files["RUNS"].write_text(RUNS)
    files["CSV"].write_text("iteration_s\n" + "0.031\n" * 30)
    for name, strategy in (("PLAN", "layerwise"), ("DATA", "data")):
        assert main(["plan", "alexnet", *P100, "--strategy", strategy, "-o", str(files[name])]) == 0

    @cache
    def run(name: str) -> list[ConsoleRenderable]:
        items: list[ConsoleRenderable] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)  # a path in a heading is the same everywhere
            patch.setenv("SLICEWISE_CACHE", str(folder))  # where no test has calibrated
            patch.setattr(Page, "show", lambda _, *more: items.extend(more))
            if name == "run":
                show_run(RAN)
            else:
                assert main([files[word].name if word in files else word for word in COMMANDS[name]]) in (0, 1)
        return items

    return run


def _numbers(text: str) -> Counter[str]:
    return Counter(found for line in text.splitlines() for found in NUMBER.findall(line))


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_no_width_cuts_a_number_and_a_wide_page_has_them_all(shown: Shown, name: str) -> None:
    items = shown(name)
    wide = _numbers(plain_text(*items))
    assert len(wide) > 5
    assert wide == _numbers(plain_text(*items, width=5000))
    for width in range(40, 201, 1 if name in ("plan", "oracle") else 9):
        text = plain_text(*items, width=width)
        assert _numbers(text) <= wide, width
        assert all(len(line) <= width for line in text.splitlines() if " " in line)  # the path of a file is left whole


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_at_most_one_empty_line_stands_between_blocks(shown: Shown, name: str) -> None:
    for width in WIDTHS:
        assert "\n\n\n" not in plain_text(*shown(name), width=width)


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_columns_that_are_left_out_are_named(shown: Shown, name: str) -> None:
    for item in shown(name):
        if isinstance(item, Table):
            narrow, wide = (plain_text(item, width=width) for width in (80, None))
            left_out = re.findall(r"[^\s,]+", narrow.partition("also with --wide: ")[2])
            assert _columns(wide) == _columns(narrow).union(_columns(wide).intersection(left_out))


def _columns(text: str) -> set[str]:
    """The words above the rule."""
    return set(text.partition("──")[0].split())


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_no_header_is_broken_inside_a_word(shown: Shown, name: str) -> None:
    for item in shown(name):
        if isinstance(item, Table):
            whole = _columns(plain_text(item))
            for width in range(60, 140, 7):
                assert _columns(plain_text(item, width=width)) <= whole


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_every_table_reads_as_it_was_approved(shown: Shown, name: str) -> None:
    """`SNAPSHOTS=write pytest tests/validation/test_widths.py` writes them anew: look at the difference."""
    told = "".join(f"== {width} columns\n{plain_text(*shown(name), width=width)}\n" for width in WIDTHS)
    bound = r"No\s+plan\s+of\s+the\s+space\s+simulates\s+below.*?\n(?=\n)"  # it and how long it took may differ
    told = re.sub(bound, "No plan of the space simulates below ...\n", told, flags=re.DOTALL)
    path = Path(__file__).parent / "snapshots" / f"{name.replace(' ', '-')}.txt"
    if os.environ.get("SNAPSHOTS") == "write":
        path.write_text(told)
    assert told == path.read_text()


def test_wide_shows_every_column_on_any_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["cluster", "list"]) == 0
    assert "also with --wide: bandwidth, latency" in capsys.readouterr().out
    assert main(["cluster", "list", "--wide"]) == 0
    told = capsys.readouterr().out
    assert "cluster    tier   devices  device   members  ports  bandwidth  latency\n" in told
    assert "--wide" not in told


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("plan", "A step takes "),
        ("oracle", "Use data (N128) on 128 devices"),
        ("provision", "Cheapest: 1 device (serial) in "),
        (
            "provision in time",
            "Cheapest that is sure to keep the deadline: 16 devices (data) in 7 h 28 min for 298.41 ",
        ),
        ("provision in time", "Cheaper, but not sure to keep it: 8 devices for 293.64 (90% in time)."),
        ("explain two plans", "A step takes "),
        ("explain what if", "A step takes "),
        ("diagnose", "wrong cost model: "),
        ("calibrate", "The fitted runs are projected with "),
        ("run", "check (float64, dropout off): loss and all 16 gradients equal to one device"),
    ],
)
def test_the_answer_comes_before_the_tables(shown: Shown, name: str, answer: str) -> None:
    text = plain_text(*shown(name), width=200)
    assert -1 < text.find(answer) < text.find("──")


@pytest.mark.parametrize("name", [*COMMANDS, "run"])
def test_a_column_that_is_left_out_is_not_explained(shown: Shown, name: str) -> None:
    for width in (60, *WIDTHS):
        text = plain_text(*shown(name), width=width)
        for table in (item for item in shown(name) if isinstance(item, Table)):
            for word in _columns(plain_text(table)) - _columns(plain_text(table, width=width)):
                assert not re.search(rf"(?:^|[;.] ){re.escape(word)}: ", text, re.MULTILINE | re.IGNORECASE), width


def test_a_narrow_table_leaves_out_no_rows_largest_term_for_a_smaller_one(shown: Shown) -> None:
    (table,) = (item for item in shown("plan") if isinstance(item, Table) and "speed-up" in plain_text(item))
    told = plain_text(table, width=80)
    assert {"compute", "transfer", "sync", "halo"} <= _columns(told)  # the last is spatial's
    assert "update" not in _columns(told)


def test_formulas_hang_and_impossible_strategies_are_one_line(shown: Shown) -> None:
    text = plain_text(*shown("oracle forms"), width=80).partition("The closed forms")[2]
    legend, _, formulas = text.partition("\ndata, compute = ")
    assert "alpha, beta " in legend
    formulas, _, impossible = formulas.partition("\nNot possible on 16 devices: ")
    for line in formulas.splitlines()[1:]:
        assert line.startswith("  ") or re.match(r"[\w+]+, (compute|communication|memory|limit) = ", line)
    assert "serial, compute" not in text
    reason = "resnet50 has no attention, so no tokens to share"
    assert " ".join(impossible.split()) == f"serial (it uses one), sequence and data+sequence ({reason})."


def test_the_width_is_the_terminals_or_what_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert Page().width == 90
    monkeypatch.setenv("COLUMNS", "12")
    assert Page().width == 40
    monkeypatch.delenv("COLUMNS")
    assert Page().width == 200  # not a terminal: nobody's lines are cut


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_run(RAN | {"model": "[red]/net.py:make"})
    assert "[red]/net.py:make on 2 ranks" in capsys.readouterr().out
