from pathlib import Path

import pytest

from slicewise.errors import RequestError
from slicewise.fitting.runs import Run, read_runs

HEAD = "model,strategy,devices,batch,iteration_s,split,dtype,input,compute_s,communication_s\n"
GOOD = "resnet50,data+filter,16,256,0.3,4x4,fp16,3x192x192,0.2,0.1\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_text(text)
    return path


def test_every_column_is_read(tmp_path: Path) -> None:
    (run,) = read_runs(written(tmp_path, HEAD + GOOD))
    assert run == Run(
        model="resnet50",
        strategy="data+filter",
        devices=16,
        batch=256,
        iteration_s=0.3,
        split=(4, 4),
        dtype="fp16",
        input=(3, 192, 192),
        compute_s=0.2,
        communication_s=0.1,
    )


def test_optional_columns_may_be_empty_or_missing(tmp_path: Path) -> None:
    text = "iteration_s, model, strategy, devices, batch\n0.2, resnet50, serial, 1, 64\n"
    assert read_runs(written(tmp_path, text)) == (
        Run(model="resnet50", strategy="serial", devices=1, batch=64, iteration_s=0.2),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no column 'model'; the first line must name model, strategy, devices, batch, iteration_s"),
        ("model,strategy,devices,batch\n", "no column 'iteration_s'"),
        (HEAD, "no runs"),
        (HEAD.replace("split", "spilt") + GOOD, "unknown column 'spilt'; choose from model"),
        (HEAD + GOOD + GOOD.replace("0.3", "fast"), "line 3: iteration_s must be seconds above 0 (got 'fast')"),
        (HEAD + GOOD.replace("0.3", "nan"), "line 2: iteration_s must be seconds above 0 (got 'nan')"),
        (HEAD + GOOD.replace("0.3", "-1"), "line 2: iteration_s must be seconds above 0"),
        (HEAD + GOOD.replace(",16,", ",many,"), "line 2: devices must be a positive whole number (got 'many')"),
        (HEAD + GOOD.replace(",256,", ",0,"), "line 2: batch must be a positive whole number (got '0')"),
        (HEAD + GOOD.replace("data+filter", "magic"), "line 2: strategy must be one of serial, data,"),
        (HEAD + GOOD.replace("4x4", "4x5"), "line 2: split must be p1xp2 that makes 16 devices (got '4x5')"),
        (HEAD + GOOD.replace("4x4", "half"), "line 2: split must look like 4x4 (got 'half')"),
        (HEAD + GOOD.replace("fp16", "fp64"), "line 2: dtype must be one of fp32, tf32, bf16, fp16 (got 'fp64')"),
        (HEAD + GOOD.replace("3x192x192", "big"), "line 2: input must look like 3x224x224 (got 'big')"),
        (HEAD + GOOD.replace("resnet50", ""), "line 2: model must name a model"),
        (HEAD + "resnet50,serial,2,64,0.2\n", "line 2: devices must be 1 for serial (got '2')"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RequestError) as caught:
        read_runs(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"nowhere\.csv: no such file"):
        read_runs(tmp_path / "nowhere.csv")


def test_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RequestError, match="not CSV"):
        read_runs(path)
