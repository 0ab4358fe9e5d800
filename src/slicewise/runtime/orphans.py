"""Ranks end with the launcher that started them."""

import os

from slicewise.orphans import end_with
from slicewise.runtime.environment import LAUNCHER


def end_with_launcher() -> None:
    """Where a launcher of ours started this process."""
    launcher = os.environ.pop(LAUNCHER, None)  # not for what this process starts
    if launcher is not None:
        end_with(int(launcher))
