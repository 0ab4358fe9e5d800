"""How a rank tells its launcher why it failed. Imports no torch: the launcher and every command use it."""

import os
from pathlib import Path

FAILURE_FILE = "SLICEWISE_FAILURE_FILE"


def report_failure(message: str) -> None:
    """Leave the reason where the launcher looks; nothing to do outside a launched rank."""
    path = os.environ.get(FAILURE_FILE)
    if path:
        Path(path).write_text(message)
