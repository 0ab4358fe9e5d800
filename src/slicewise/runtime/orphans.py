"""Ranks end with the launcher that started them."""

import os

from slicewise.environment import LAUNCHER
from slicewise.orphans import end_with


def end_with_launcher() -> None:
    """Where a launcher of ours started this process."""
    launcher = os.environ.pop(LAUNCHER, None)  # not for what this process starts
    if launcher is not None:
        end_with(int(launcher))
