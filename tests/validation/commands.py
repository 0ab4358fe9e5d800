"""The command line, as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def slicewise(*arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slicewise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "SLICEWISE_CACHE": str(cache)},
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
