"""Ranks end with the launcher that started them, also when nobody could tell them: after its kill -9."""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress

from slicewise.runtime.environment import LAUNCHER

_PR_SET_PDEATHSIG = 1
_LOOKING_S = 1.0


def end_with_launcher() -> None:
    """Where a launcher of ours started this process. Linux ends it at once, a stopped one too; elsewhere it looks."""
    launcher = os.environ.pop(LAUNCHER, None)  # not for what this process starts
    if launcher is None:
        return
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(launcher):  # it was quicker
        os._exit(1)
    threading.Thread(target=_look, args=(int(launcher),), name="slicewise-launcher", daemon=True).start()


def _look(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(_LOOKING_S)
    os._exit(1)
