import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.devices import fitted
from benchmarks.devices.boards import standing
from benchmarks.devices.run import main, scored
from benchmarks.devices.samples import DATA, Sample, boards, timings
from benchmarks.devices.scores import Scores, predict, scores

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


def deepbench(folder: Path, device: str, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, Scores]:
    """Some rows of one device in fp32, changed."""
    with (DATA / "deepbench_layers.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["device"], row["dtype"]) == (device, "fp32")][::7]
    folder.mkdir()
    with (folder / "deepbench_layers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(change(row) for row in rows)
    return scored(folder)


def test_sizes_may_be_written_as_floats(tmp_path: Path) -> None:
    sizes = ("n", "c", "h", "w", "f", "kernel_h", "kernel_w", "pad_h", "pad_w", "stride_h", "stride_w", "m", "k")
    as_floats = deepbench(tmp_path / "floats", "V100", lambda row: row | {n: row[n] and row[n] + ".0" for n in sizes})
    assert as_floats == deepbench(tmp_path / "whole", "V100", lambda row: row)
    assert not as_floats["left_out"]
    half = deepbench(tmp_path / "half", "V100", lambda row: row | {"f": row["f"] and row["f"] + ".5"})
    assert sum(half["left_out"].values()) > 0


def test_dtypes_have_their_bytes_and_the_unit_that_runs_them(tmp_path: Path) -> None:
    def samples(device: str, dtype: str) -> list[Sample]:
        folder = tmp_path / f"{device}-{dtype}"
        assert not deepbench(folder, device, lambda row: row | {"dtype": dtype})["left_out"]
        return timings(folder).rows

    wide, tf32, half = (samples("V100", dtype) for dtype in ("float32", "tf32", "bf16"))
    assert {row.dtype for row in wide} == {"fp32"}
    assert {row.dtype for row in half} == {row.dtype for row in samples("V100", "FP16")} == {"fp16_mixed"}
    for four, also_four, two in zip(wide, tf32, half, strict=True):
        assert four.bytes == also_four.bytes == 2 * two.bytes
        assert also_four.columns == two.columns >= four.columns
    wide_s, tf32_s, half_s = (predict(rows, fitted.load(), boards(DATA)).sum() for rows in (wide, tf32, half))
    assert half_s < tf32_s < wide_s
    assert {row.dtype for row in samples("P100", "tf32")} == {"fp32"}
    assert {row.dtype for row in samples("P100", "fp16")} == {"fp16_in_fp32_math"}


def test_unknown_dtypes_are_left_out_and_named(tmp_path: Path) -> None:
    found = deepbench(tmp_path / "int8", "V100", lambda row: row | {"dtype": "int8"})
    assert found["accuracy"]["all"] is None
    assert set(found["left_out"]) == {"deepbench_layers.csv: unknown dtype int8"}


def test_convolutions_of_neusight_need_no_window(tmp_path: Path) -> None:
    for folder, names, values in (("short", "", ""), ("long", ",kernel,stride,padding", ",3,1,1")):
        (tmp_path / folder).mkdir()
        text = f"device,op,b,c_in,c_out,size,seconds{names}\nT4,conv,4,16,16,28,1e-4{values}\n"
        (tmp_path / folder / "neusight_ops.csv").write_text(text, encoding="utf-8")
    assert scored(tmp_path / "short")["accuracy"] == scored(tmp_path / "long")["accuracy"]
    assert not scored(tmp_path / "short")["left_out"]


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
