"""0 done, 1 the answer is no, 2 the request was wrong, 3 our own fault: with one line, whatever happens."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli import cluster as cluster_command
from slicewise.cli.main import main
from tests.machines import write_cores

LIST = ("cluster", "list")


def _ends(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(_: Any) -> int:
        raise error

    monkeypatch.setattr(cluster_command, "main", fail)
    return main(list(LIST))


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "cannot read or write: No space left on device"),
        (OSError(errno.EIO, "Input/output error", "/mnt/plan.json"), 2, "/mnt/plan.json: Input/output error"),
        (MemoryError(), 2, "out of memory; ask for fewer devices"),
        (MemoryError("Unable to allocate 15 GiB"), 2, "out of memory: Unable to allocate 15 GiB; ask for"),
        (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply for Python (at test_exit_codes.py:"),
        (UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte"), 2, "a file is not text in UTF-8"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_the_machine_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    told: str,
) -> None:
    assert _ends(monkeypatch, error) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("slicewise: ")
    assert told in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        ModuleNotFoundError("No module named 'tree'", name="tree"),
        OSError("a message alone"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),  # no file that anybody named
    ],
    ids=lambda error: type(error).__name__,
)
def test_our_own_fault_comes_with_what_to_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert _ends(monkeypatch, error) == 3
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert f"slicewise: {type(error).__name__}: {error} (our fault? please report the lines above)\n" in said


def test_an_error_of_several_lines_is_told_in_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _ends(monkeypatch, OSError(errno.EIO, "first\nsecond")) == 2
    assert capsys.readouterr().err == "slicewise: cannot read or write: first second\n"


def _command(*arguments: str, cache: Path, **options: Any) -> "subprocess.Popen[str]":
    environment = {**os.environ, "SLICEWISE_CACHE": str(cache), **options.pop("env", {})}
    command = [sys.executable, "-m", "slicewise", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


def test_standard_output_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = _command(*LIST, cache=tmp_path, stdout=full)
        said = done.communicate(timeout=60)[1]
    assert (done.returncode, said) == (2, "slicewise: cannot read or write: No space left on device\n")


def test_standard_output_that_is_closed_is_no_error(tmp_path: Path) -> None:
    done = _command(*LIST, cache=tmp_path, preexec_fn=lambda: os.close(1))
    said = done.communicate(timeout=60)[1]
    assert (done.returncode, said) == (0, "")


def test_a_reader_that_leaves_takes_no_rank_along(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = _command("doctor", "--network", cache=tmp_path, stdout=writing, env={"PYTHONUNBUFFERED": "1"})
    os.close(writing)
    said = done.communicate(timeout=60)[1]
    assert done.returncode == 0
    assert said == "timing all-reduces between 2 ranks\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, form: tuple[str, ...], unbuffered: str) -> None:
    """As `slicewise cluster list | head -1` does, whose reader has all it wants."""
    reading, writing = os.pipe()
    os.close(reading)
    done = _command(*LIST, *form, cache=tmp_path, stdout=writing, env={"PYTHONUNBUFFERED": unbuffered})
    os.close(writing)
    said = done.communicate(timeout=60)[1]
    assert (done.returncode, said) == (0, "")


def test_names_that_the_terminal_cannot_spell_are_shown_as_python_does(tmp_path: Path) -> None:
    path = write_cores(tmp_path / "größe.toml")
    done = _command(
        "cluster", "show", str(path), cache=tmp_path, stdout=subprocess.PIPE, env={"PYTHONIOENCODING": "ascii"}
    )
    shown, said = done.communicate(timeout=60)
    assert (done.returncode, said) == (0, "")
    assert "gr\\xf6\\xdfe.toml: 2 x core" in shown
    assert "----" in shown


def test_control_c_ends_a_command_with_one_line(tmp_path: Path) -> None:
    arguments = ("plan", "resnet152", "--cluster", "dgx-a100", "--devices", "1024")
    # a shell's background jobs ignore it, and so would what they start
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = _command(*arguments, cache=tmp_path, stdout=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stderr is not None
    assert done.stderr.readline().startswith("planning resnet152")
    time.sleep(0.2)
    done.send_signal(signal.SIGINT)
    said = done.communicate(timeout=60)[1]
    assert done.returncode == 130
    assert said.endswith("slicewise: interrupted\n")
    assert "Traceback" not in said
