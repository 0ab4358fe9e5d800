"""`slicewise calibrate --from`, from a file of runs to a cluster that other commands take."""

import contextlib
import json
from pathlib import Path

import pytest

from slicewise.cli.main import main
from slicewise.cluster.cluster import load_cluster

RUNS = """model,strategy,devices,batch,iteration_s
alexnet,serial,1,64,0.040
alexnet,data,8,512,0.090
alexnet,data,16,1024,0.095
alexnet,filter,8,64,0.120
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(RUNS)
    return path


def test_a_cluster_is_learned_written_and_used(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "learned.toml"
    assert main(["calibrate", "--from", str(runs), "-o", str(written)]) == 0
    told = capsys.readouterr()
    assert "compute efficiency" in told.out
    assert "inter bandwidth, gradients" in told.out
    learned, base = load_cluster(str(written)), load_cluster("abci-v100")
    assert learned.origin == "fitted"
    assert learned.tuning.margin is not None
    assert learned.device.efficiency["conv"] < base.device.efficiency["conv"]  # 30 ms by the preset, 40 measured
    assert main(["plan", "alexnet", "--cluster", str(written), "--batch", "512", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predicted"]["origin"] == "fitted"


def test_a_range_is_wide_for_what_no_run_has_shown(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "learned.toml"
    assert main(["calibrate", "--from", str(runs), "-o", str(written)]) == 0
    tuning = load_cluster(str(written)).tuning
    assert (tuning.strategies, tuning.dtypes, tuning.most_devices) == (("serial", "data", "filter"), ("fp32",), 16)
    capsys.readouterr()
    asked = ["oracle", "alexnet", "--cluster", str(written), "--devices", "16", "--batch", "1024", "--json"]
    assert main([*asked, "--strategies", "data,data+spatial"]) == 0
    fitted, other = json.loads(capsys.readouterr().out)["rows"]
    assert tuning.margin is not None
    assert fitted["high_s"] / fitted["iteration_s"] == pytest.approx(1 + tuning.margin, rel=1e-3)
    assert other["high_s"] / other["iteration_s"] > (1 + tuning.margin) ** 1.5


def test_the_file_is_there_whoever_stops_reading_the_table(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("slicewise.report.fitting.show_fit", broken)
    written = tmp_path / "learned.toml"
    with contextlib.suppress(BrokenPipeError):
        main(["calibrate", "--from", str(runs), "-o", str(written)])
    assert load_cluster(str(written)).origin == "fitted"


def test_an_older_profile_is_kept_and_where_is_said(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "learned.toml"
    written.write_text("measured for days")
    assert main(["calibrate", "--from", str(runs), "-o", str(written)]) == 0
    assert f"kept the older one as {tmp_path / 'learned.1.toml'}\nwrote {written}\n" in capsys.readouterr().err
    assert (tmp_path / "learned.1.toml").read_text() == "measured for days"
    assert main(["calibrate", "--from", str(runs), "-o", str(written), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == str(tmp_path / "learned.2.toml")


def test_json_is_one_document(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--from", str(runs), "--cluster", "dgx-a100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["base"] == "dgx-a100"
    assert document["runs"] == len(document["projected_s"]) == 4
    item = next(item for item in document["parameters"] if item["name"] == "compute efficiency")
    assert item["runs"] == 4
    assert set(item) == {"name", "unit", "preset", "value", "deviation", "runs"}


@pytest.mark.parametrize(
    ("arguments", "change", "complaint"),
    [
        ([], ("0.120", "soon"), "line 5: iteration_s is 'soon'; must be a number above 0"),
        ([], ("alexnet,serial", "alexnte,serial"), "unknown model 'alexnte'"),
        ([], ("filter,8", "filter,4096"), "alexnet, filter on 4096 devices, batch 64: no such run is possible"),
        (["--cluster", "abc"], ("", ""), "unknown cluster 'abc'"),
        (["-o", "learned.json"], ("", ""), "-o must name a .toml file"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], change: tuple[str, str], complaint: str
) -> None:
    runs.write_text(RUNS.replace(*change))
    assert main(["calibrate", "--from", str(runs), *arguments]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("fitting ")]
    assert len(told) == 1
    assert complaint in told[0]


def test_options_of_a_fit_are_refused_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--cluster", "dgx-a100"]) == 2
    assert "--from" in capsys.readouterr().err
