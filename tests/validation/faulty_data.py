"""Batches whose loader brings a fault about: FAULT_RANK at FAULT_STEP, once for each FAULT_ONCE file.

stop    the process stops itself, as if somebody had sent SIGSTOP
block   the loader never gives the batch
kill    the process is killed
cut     this emulated host's end of the link goes down
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

WARM_UP = 2  # steps that `run` does before it counts


def _block() -> None:
    time.sleep(600)


def _cut() -> None:
    subprocess.run(["ip", "link", "set", os.environ["GLOO_SOCKET_IFNAME"], "down"], check=True)


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "block": _block,
    "cut": _cut,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def batches(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Other samples in every step, the same whatever the number of ranks."""
    step = -WARM_UP
    while True:
        generator = torch.Generator().manual_seed(step + WARM_UP)
        images = torch.randn(batch * ranks, *shape, generator=generator)
        labels = torch.randint(10, (batch * ranks,), generator=generator)
        if os.environ.get("RANK") == os.environ.get("FAULT_RANK") and step == int(os.environ.get("FAULT_STEP", -9)):
            _once()
        yield images[rank * batch : (rank + 1) * batch], labels[rank * batch : (rank + 1) * batch]
        step += 1


def _once() -> None:
    """A training that goes on after the fault does not meet it again."""
    done = Path(os.environ["FAULT_ONCE"])
    if not done.exists():
        done.touch()
        FAULTS[os.environ["FAULT"]]()
