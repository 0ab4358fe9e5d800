"""A report has what its files say, runs nothing of them, and needs nothing but itself."""

import gzip
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli.main import main
from slicewise.cluster.cluster import load_cluster
from slicewise.diagnosis.diagnosing import diagnose
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan
from slicewise.plans.plan import Plan
from slicewise.report.documents import read_documents
from slicewise.report.reporting import report, sections_of
from slicewise.strategies.forms import forms
from slicewise.strategies.projecting import oracle
from slicewise.units import seconds
from tests.unit.figures.drawn import parsed

FORMATS = Path(__file__).parents[2] / "formats" / "v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, a projection, a diagnosis, and the run and traces of an earlier release."""
    made = tmp_path_factory.mktemp("report")
    baseline_plan(load_graph("lenet5"), load_cluster("p100-4x4").with_devices(4), "owt", batch=64).save(
        made / "plan.json"
    )
    table = oracle("lenet5", "abci-v100", batch_per_device=8, devices=[1, 4, 64])
    told = table.to_dict() | {"closed_forms": [form.to_dict() for form in forms(table.oracle, 4)]}
    (made / "oracle.json").write_text(json.dumps(told))
    ran = baseline_plan(load_graph("lenet5"), load_cluster("p100-4x4").with_devices(2), "data", batch=8)
    found = diagnose(ran, [FORMATS / "run.json"]).to_dict()
    head = {"model": "lenet5", "cluster": "p100-4x4", "devices": 2, "batch": 8}
    (made / "diagnosis.json").write_text(json.dumps({**head, **found}))
    return made


class _Page(HTMLParser):
    """Balanced tags, and every address that is named."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [str(values[name]) for name in ("href", "src", "xlink:href", "action") if values.get(name)]
        self.ids += [str(values["id"])] if values.get("id") else []
        self.scripts += tag == "script"
        assert not any(name.startswith("on") for name in values)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _files(folder: Path) -> list[Path]:
    return [
        folder / "plan.json",
        folder / "oracle.json",
        FORMATS / "run.json",
        folder / "diagnosis.json",
        FORMATS / "timeline.json.gz",
    ]


def test_one_page_holds_all_files_and_asks_for_nothing_else(folder: Path) -> None:
    text = report(_files(folder))
    assert isinstance(text, str)
    page = _Page(text)
    assert page.scripts == 1
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert "@import" not in text
    assert "url(" not in text
    plan = Plan.load(folder / "plan.json")
    assert seconds(plan.predicted.iteration_s) in text
    for words in (
        "measured, device 1",
        "which strategy, on how many devices",
        "Diagnosis of lenet5",
        "A run of lenet5",
    ):
        assert words in text


def test_every_figure_of_a_report_is_well_formed_and_named(folder: Path) -> None:
    figures = [figure for section in sections_of(read_documents(_files(folder))) for figure in section.figures]
    for figure in figures:
        parsed(figure.svg)
    names = {figure.name for figure in figures}
    assert {"plan", "network", "layers", "cut-1", "memory", "timeline", "scaling", "terms", "agreement"} <= names


def test_names_in_files_stay_words(folder: Path, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    document = json.loads((folder / "oracle.json").read_text())
    document["model"] = document["cluster"] = document["rows"][0]["strategy"] = evil
    document["rows"][1]["reason"] = evil
    (tmp_path / "evil.json").write_text(json.dumps(document))
    run = json.loads((FORMATS / "run.json").read_text()) | {"model": evil}
    (tmp_path / f"{evil.replace('/', '')}.json").write_text(json.dumps(run))
    text = report(sorted(tmp_path.iterdir()))
    assert isinstance(text, str)
    assert _Page(text).scripts == 1
    assert "<img" not in text
    assert "<script>alert" not in report([tmp_path / "evil.json"], format="md")


BAD = ("", "{}", "[]", "3", "{", '{"rows": [], "engine": "x"}', '{"layers": [], "mesh": {}}', '{"steps_s": 3}',
       '{"verdicts": 1}', '{"traceEvents": 3}', '{"plans": [1]}')  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_says_nothing_is_one_line_and_exit_code_2(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert main(["report", str(path), "-o", str(tmp_path / "report.html")]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "bad.json" in said[0]
    assert not (tmp_path / "report.html").exists()


def _changed(document: Any, keys: list[str | int], value: Any) -> Any:
    if not keys:
        return value
    copy = document.copy()
    copy[keys[0]] = _changed(document[keys[0]], keys[1:], value)
    return copy


@pytest.mark.parametrize(
    ("name", "keys", "value"),
    [
        ("oracle.json", ["rows", 1, "iteration_s"], "soon"),
        ("oracle.json", ["rows", 1, "iteration_s"], -1.0),
        ("oracle.json", ["rows", 1, "devices"], 0),
        ("oracle.json", ["rows", 1, "communication"], {"gradient_s": None}),
        ("diagnosis.json", ["verdicts", 0, "kind"], "bad luck"),
        ("diagnosis.json", ["measured", "iteration_s"], 3),
        ("diagnosis.json", ["measured", "terms_s"], {"step": ["x"]}),
    ],
)
def test_a_wrong_value_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, keys: list[str | int], value: Any
) -> None:
    (tmp_path / name).write_text(json.dumps(_changed(json.loads((folder / name).read_text()), keys, value)))
    assert main(["report", str(tmp_path / name), "-o", str(tmp_path / "r.html")]) == 2
    said = capsys.readouterr().err.strip()
    assert name in said
    assert "\n" not in said


def test_single_figures_and_texts(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(folder / "plan.json")
    for output, start in (("a.svg", b"<svg "), ("a.png", b"\x89PNG"), ("a.md", b"# lenet5 on p100-4x4")):
        assert main(["report", plan, "-o", str(tmp_path / output)]) == 0
        assert (tmp_path / output).read_bytes().startswith(start)
    assert main(["report", plan, "-o", str(tmp_path / "m.svg"), "--figure", "memory"]) == 0
    assert "Memory per device" in (tmp_path / "m.svg").read_text()
    capsys.readouterr()
    assert main(["report", plan, "-o", str(tmp_path / "x.svg"), "--figure", "weather"]) == 2
    assert "unknown figure 'weather'; choose from" in capsys.readouterr().err
    assert main(["report", plan, "-o", str(tmp_path / "x"), "--format", "docx"]) == 2
    assert main(["report", plan, "-o", str(tmp_path / "none" / "x.html")]) == 2


def test_a_png_without_its_library_is_refused_before_any_work(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    for command in (["report", str(folder / "plan.json"), "-o"], ["plan", "lenet5", "--figure"]):
        assert main([*command, str(tmp_path / "x.png")]) == 2
        assert "pip install 'slicewise[figures]'" in capsys.readouterr().err
    assert main(["plan", "lenet5", "--figure", str(tmp_path / "x.pdf")]) == 2
    assert "name it .svg or .png" in capsys.readouterr().err


def test_older_files_are_drawn_too(tmp_path: Path) -> None:
    for name in ("plan.json", "plan-pipeline.json"):
        page = report([FORMATS / name])
        assert isinstance(page, str)
        _Page(page)
    _Page(str(report([FORMATS / "profiler-rank0.json.gz", FORMATS / "profiler-rank1.json.gz"])))
    with gzip.open(FORMATS / "timeline.json.gz", "rt") as file:
        (tmp_path / "plain.json").write_text(file.read())
    assert "measured, device 1: compute" in str(report([tmp_path / "plain.json"], format="svg"))


def test_two_plans_are_compared(folder: Path, tmp_path: Path) -> None:
    other = baseline_plan(load_graph("lenet5"), load_cluster("p100-4x4").with_devices(4), "data", batch=64)
    other.save(tmp_path / "data.json")
    text = str(report([folder / "plan.json", tmp_path / "data.json"], format="md"))
    assert "What they slice differently" in text
    assert "Time against memory" in text
