"""The command line, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def slicewise(*arguments: object, cache: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
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
