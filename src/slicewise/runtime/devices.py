"""The device of this rank: its GPU where there are any, else a CPU core."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.distributed as dist

from slicewise.dtype import DTYPES
from slicewise.environment import FAILURE_FILE, MEETING_FILE
from slicewise.errors import RequestError


def rank_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def torch_dtype(name: str) -> torch.dtype:
    """Of an activation under a plan for dtype `name`: `torch_dtype("bf16") is torch.bfloat16`."""
    return getattr(torch, DTYPES[name].torch_name)  # type: ignore[no-any-return]


def start_rank() -> torch.device:
    """Join the process group that torchrun or the launcher described in the environment."""
    device = rank_device()
    described: dict[str, Any] = {"backend": "gloo"}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        described = {"backend": "nccl", "device_id": device}
    else:
        torch.set_num_threads(1)
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    where, remedy = f"at {place}", "choose another --master-port"
    if MEETING_FILE in os.environ:
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(os.environ[MEETING_FILE], ranks)  # type: ignore[attr-defined]
        described |= {"store": store, "rank": rank, "world_size": ranks}
        where, remedy = "on this host", "check GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"
    try:
        dist.init_process_group(**described)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise RequestError(f"the ranks cannot meet {where}: {reason}; {remedy}") from error
    return device


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Random numbers of torch's own generators start from `seed` inside; afterwards they go on as before."""
    on_device = device.type not in ("cpu", "meta")
    # named: without, torch keeps the state of every GPU of the host, and warns that there are several
    devices = [device.index or 0] if on_device else []
    with torch.random.fork_rng(devices, device_type=device.type if on_device else "cuda"):
        torch.manual_seed(seed)
        yield


def synchronize() -> None:
    """Wait for the device, so that clocks on the host tell the truth."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def leave(code: int, last_words: Callable[[], int | None] | None = None) -> int:
    """End a rank whose work is done. All ranks leave together, whether anybody reads the `last_words` of the first or
    not; where these return a code, it is the first rank's.

    One that our launcher started leaves without the interpreter's tear-down: a thread of torch that outlives it can
    abort a process that has done everything right.
    """
    if last_words is not None and dist.get_rank() == 0:
        with suppress(BrokenPipeError):
            code = last_words() or code
    dist.barrier()
    dist.destroy_process_group()
    if FAILURE_FILE in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
