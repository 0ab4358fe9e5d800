import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.devices import fitted
from benchmarks.devices.boards import standing
from benchmarks.devices.run import main, scored
from benchmarks.devices.samples import DATA, boards, timings
from benchmarks.devices.scores import predict, scores

ROOT = Path(__file__).parents[3]


def test_every_operator_that_was_fitted_keeps_its_bar() -> None:
    rows, described, records = timings(DATA).rows, boards(DATA), fitted.load()
    found = scores(rows, predict(rows, records, described), {row.device for row in rows})
    bars = {
        "gemm": 0.82, "conv_forward": 0.72, "conv_backward_input": 0.66, "conv_backward_weight": 0.75,
        "linear": 0.91, "conv": 0.75,
    }  # fmt: skip
    for op, bar in bars.items():
        assert bar <= found["accuracy"]["by_op"][op] <= 1


@pytest.mark.parametrize("file", ["deepbench_layers.csv", "neusight_ops.csv"])
def test_a_folder_with_one_file_and_a_device_nobody_timed_is_scored(file: str, tmp_path: Path) -> None:
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    known = [line for line in lines if "V100" in line][:400:5]
    strange = [line.replace("V100-32GB-PCIe", "Mystery9").replace(",V100,", ",Mystery9,") for line in known]
    (tmp_path / file).write_text("\n".join([lines[0], *known, *strange]) + "\n", encoding="utf-8")
    nominal = (DATA / "devices.csv").read_text(encoding="utf-8")
    (tmp_path / "devices.csv").write_text(nominal + "Mystery9,both,1.4e13,1e14,9e11,made up\n", encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.devices.run", "--data", str(tmp_path), "--json"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    for table in (found["accuracy"], found["log_error"]):
        assert set(table) == {"all", "by_op", "by_device", "known", "unknown"}
    assert 0 <= found["accuracy"]["all"] <= 1
    assert "Mystery9" in found["accuracy"]["by_device"]
    assert found["accuracy"]["unknown"]["by_op"].keys() == found["accuracy"]["by_op"].keys()


def test_a_board_without_power_does_not_hold_its_peak() -> None:
    assert standing("T4", 8.141e12).generation == "turing"
    assert 0.5 < standing("T4", 8.141e12).held < 0.65
    assert standing("V100", 15.7e12).held == 1


KEYS = {"all", "by_op", "by_device", "known", "unknown"}


def test_an_empty_folder_has_every_key_and_says_that_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        monkeypatch.setattr(sys, "argv", ["run", "--data", str(folder), "--json"])
        with pytest.raises(SystemExit, match="nothing to score"):
            main()
        found = json.loads(capsys.readouterr().out)
        assert all(set(found[name]) == KEYS and found[name]["all"] is None for name in ("accuracy", "log_error"))


def test_rows_that_say_nothing_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [
        "device,op,b,m,n,k,c_in,c_out,kernel,size,stride,padding,h,seconds",
        "T4,linear,4,128,256,64,,,,,,,,1e-4",
        "T4,conv,4,,,,16,16,5,28,2,2,,1e-4",  # a kind of convolution that this source never timed
        "T4,linear,4,,256,64,,,,,,,,1e-4",
        "T4,conv,4,,,,16,16,3,1,1,0,,1e-4",
        "T4,gather,4,,,,,,,,,,12,1e-4",
        "T4,add,4,,,,,,,,,,12,0",
        "Nobody,add,4,,,,,,,,,,12,1e-5",
        "T4,add,4",
        ",add,4,,,,,,,,,,12,1e-5",
    ]
    (tmp_path / "neusight_ops.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = scored(tmp_path)
    assert set(found["accuracy"]["unknown"]["by_op"]) == {"linear", "conv"}
    assert sum(found["left_out"].values()) == 7
    assert {why.removeprefix("neusight_ops.csv: ") for why in found["left_out"]} == {
        "sizes that make no linear",
        "sizes that make no conv",
        "unknown operator gather",
        "no seconds",
        "Nobody is not in devices.csv",
        "no device",
    }


@pytest.mark.parametrize("gone", ["dtype", "stride_w", "trans_a", "device", "seconds"])
def test_a_missing_column_costs_rows_never_the_answer(gone: str, tmp_path: Path) -> None:
    lines = [line.split(",") for line in (DATA / "deepbench_layers.csv").read_text(encoding="utf-8").splitlines()]
    place = lines[0].index(gone)
    kept = [",".join(cells[:place] + cells[place + 1 :]) for cells in [lines[0], *lines[1:400:9]]]
    (tmp_path / "deepbench_layers.csv").write_text("\n".join(kept) + "\n", encoding="utf-8")
    found = scored(tmp_path)
    assert set(found["accuracy"]) == KEYS
    total = sum(found["left_out"].values())
    assert (found["accuracy"]["all"] is None) == (total == len(kept) - 1)
    assert total == 0 or gone in ("stride_w", "device", "seconds")
