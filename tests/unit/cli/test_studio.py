"""`slicewise studio` before it serves anything."""

import socket
import sys

import pytest

from slicewise.cli.main import main


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["studio", "--no-open"]) == 2
    assert "pip install 'slicewise[studio]'" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["studio", "--no-open", "--port", port]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "--no-open", "--port", "0", "nobody.json"]) == 2
    assert "nobody.json: no such file" in capsys.readouterr().err


def test_learn_takes_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--learn", "plan.json", "-o", "learn.html"]) == 2
    assert "leave out files" in capsys.readouterr().err
    assert main(["report", "-o", "report.html"]) == 2
    assert "name the files" in capsys.readouterr().err
