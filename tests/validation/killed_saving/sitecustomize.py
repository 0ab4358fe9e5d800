"""Every Python with this folder on its path reads it: KILL_RANK_IN_SAVE="1:2" kills rank 1 in its second save.

The files are written, and the process dies when they are to be synced: nothing of slicewise is replaced.
"""

import os
import signal
from typing import Any

_sync = os.fsync
_saves = 0


def _counting(file: Any) -> None:
    global _saves
    rank, _, number = os.environ.get("KILL_RANK_IN_SAVE", ":").partition(":")
    path = os.readlink(f"/proc/self/fd/{file if isinstance(file, int) else file.fileno()}")
    if os.environ.get("RANK") == rank and path.endswith(".distcp"):
        _saves += 1
        if _saves == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
    _sync(file)


os.fsync = _counting  # type: ignore[assignment]
