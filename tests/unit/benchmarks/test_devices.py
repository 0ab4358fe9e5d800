import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.devices import fitted
from benchmarks.devices.boards import standing
from benchmarks.devices.samples import DATA, boards, samples
from benchmarks.devices.scores import predict, scores

ROOT = Path(__file__).parents[3]


def test_every_operator_that_was_fitted_keeps_its_bar() -> None:
    rows, described, records = samples(DATA), boards(DATA), fitted.load()
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
