"""The command line: in this process, or as a user types it."""

import io
import json
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli.main import main


def slicewise(*arguments: object, cache: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What the command answers, from this process: a new one takes longer to start than most commands to answer."""
    given, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a command goes on after one
        patch.setenv("SLICEWISE_CACHE", str(cache))
        if cwd is not None:
            patch.chdir(cwd)
        try:
            code = main(given)
        except SystemExit as refused:  # by the parser
            code = int(refused.code or 0)
    return subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue())


def typed(*arguments: object, cache: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: ranks write where it does, and code that was loaded once is loaded again."""
    return subprocess.run(
        [sys.executable, "-m", "slicewise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "SLICEWISE_CACHE": str(cache)},
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_refused(done: subprocess.CompletedProcess[str], told: str) -> None:
    """One clear line on standard error, exit code 2, nothing else."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert "Traceback" not in done.stderr
