"""What commands ask of the process group, so that they need not know torch."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch.distributed as dist

from slicewise.errors import InfeasibleError, RequestError, SlicewiseError, StallError
from slicewise.runtime.stalls import Stall
from slicewise.runtime.watchdog import speaks, watch


def rank() -> int:
    return dist.get_rank()


def ranks() -> int:
    return dist.get_world_size()


def told_by_the_first(make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What rank 0 makes, on every rank; where it cannot be made, every rank raises why."""
    said: list[Any] = [None, None]
    if rank() == 0:
        try:
            said[0] = make()
        except SlicewiseError as error:
            said[1] = (error.exit_code, str(error))
    dist.broadcast_object_list(said, src=0)
    if said[1] is not None:
        code, message = said[1]
        raise {1: InfeasibleError, 2: RequestError}.get(code, SlicewiseError)(message)
    made: Mapping[str, Any] = said[0]
    return made


def watch_and_end(stall_timeout_s: float) -> None:
    """Where torchrun started the ranks: end this one when they have stalled; one says why."""
    watch(stall_timeout_s, _end)


def _end(stall: Stall) -> None:
    if speaks(stall):
        print(f"slicewise: stalled: {stall}", file=sys.stderr, flush=True)
    os._exit(StallError.exit_code)
