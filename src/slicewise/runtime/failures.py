"""How a rank tells why it failed, once for all ranks. Imports no torch: the launcher and every command use it."""

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from slicewise.environment import FAILURE_FILE

_FIRST = "slicewise/failures"


def report_failure(message: str) -> bool:
    """Whether the caller should tell the user: not where the launcher will, nor where another rank failed before.

    Ranks that lose a peer fail after it: the first to say so knows the cause.
    """
    path = os.environ.get(FAILURE_FILE)
    if path:
        with suppress(OSError):  # no room for it: say so here
            Path(path).write_text(message)
            return False
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        with suppress(Exception):  # the store may have gone with its rank
            return int(distributed.distributed_c10d._get_default_store().add(_FIRST, 1)) == 1
    return True


def described(error: BaseException, rank: int) -> str:
    """`rank 1: layer conv1: RuntimeError: out of memory (at calls.py:88)`."""
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", []))
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    cause = str(error).strip().splitlines() or [""]
    return f"rank {rank}: {where}{type(error).__name__}: {cause[0]}{place}"
