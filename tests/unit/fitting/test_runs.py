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
        (HEAD.replace("split", "spilt") + GOOD, "line 2: unknown field 'spilt' (did you mean split?); choose from mod"),
        (HEAD.replace("split", "batch") + GOOD, "a column stands twice in the first line"),
        (HEAD + GOOD + GOOD.replace("0.3", "fast"), "line 3: iteration_s is 'fast'; must be a number above 0"),
        (HEAD + GOOD.replace("0.3", "nan"), "line 2: iteration_s is nan; must be a number above 0"),
        (HEAD + GOOD.replace("0.3", "-1"), "line 2: iteration_s is -1.0; must be a number above 0"),
        (HEAD + GOOD.replace(",16,", ",many,"), "line 2: devices is 'many'; must be a whole number of at least 1"),
        (HEAD + GOOD.replace(",256,", ",0,"), "line 2: batch is 0; must be a whole number of at least 1"),
        (HEAD + GOOD.replace(",256,", ",16.7,"), "line 2: batch is 16.7; must be a whole number of at least 1"),
        (HEAD + GOOD.replace("data+filter", "magic"), "line 2: strategy is 'magic'; must be one of serial, data,"),
        (HEAD + GOOD.replace("4x4", "4x5"), "line 2: split is '4x5'; must be p1xp2 that makes 16 devices"),
        (HEAD + GOOD.replace("4x4", "half"), "line 2: split is 'half'; must be sizes such as 4x4"),
        (HEAD + GOOD.replace("fp16", "fp64"), "line 2: dtype is 'fp64'; must be one of fp32, tf32, bf16, fp16"),
        (HEAD + GOOD.replace("3x192x192", "big"), "line 2: input is 'big'; must be sizes such as 3x224x224"),
        (HEAD + GOOD.replace("resnet50", ""), "line 2: model is ''; must be text that is not empty"),
        (HEAD + "resnet50,serial,2,64,0.2\n", "line 2: devices is 2; must be 1 for serial"),
        (HEAD + GOOD.replace("0.1\n", "0.1,7\n"), "line 2: 11 cells for 10 columns"),
        (
            HEAD + GOOD.replace("resnet50", "evil.py:make"),
            "line 2: model is 'evil.py:make'; must be a network, not code",
        ),
        (
            HEAD + GOOD.replace("resnet50", "evil.pt2"),
            "line 2: model is 'evil.pt2'; must be a network, not code to run",
        ),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RequestError) as caught:
        read_runs(path)
    assert str(caught.value).startswith(str(path))
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
