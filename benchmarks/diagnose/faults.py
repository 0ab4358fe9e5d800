"""A small network, and batches whose loader brings a fault about: on one rank, at one step, in the real machine.

FAULT="slow rank" FAULT_RANK=1 FAULT_STEP=22 slicewise run PLAN --data benchmarks/diagnose/faults.py:batches
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

# busy on whatever core it inherits, for as long as the rank lives
_COMPETITOR = "import os\nrank = os.getppid()\nwhile os.getppid() == rank:\n    sum(range(100_000))"
MEGABITS_PER_S = 2000  # of the link as it should be
_THROTTLED_MEGABITS_PER_S = 200
_BURST_STEPS, _BURST_EVERY = 2, 7
_DELAY_S = 0.05


def network() -> tuple[nn.Module, Tensor]:
    """50 ms of wide convolutions on one core, which calibration knows well, and 3 MB of gradients."""
    model = nn.Sequential(
        nn.Conv2d(3, 64, 5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(64, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    return model, torch.zeros(1, 3, 64, 64)


def batches(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Synthetic samples without end; steps that only warm up count too."""
    generator = torch.Generator().manual_seed(rank)
    made = torch.randn(batch, *shape, generator=generator), torch.randint(10, (batch,), generator=generator)
    fault = FAULTS[os.environ.get("FAULT", "none")] if os.environ.get("FAULT_RANK") == str(rank) else _none
    since = int(os.environ.get("FAULT_STEP", 0))
    step = 0
    while True:
        if step >= since:
            fault(step - since)
        yield made
        step += 1


def _none(step: int) -> None:
    pass


def _slow_rank(step: int) -> None:
    if step == 0:
        for _ in range(int(os.environ.get("FAULT_PROCESSES", 1))):
            subprocess.Popen([sys.executable, "-c", _COMPETITOR])


def _slow_link(step: int) -> None:
    if step == 0:
        _limit(_THROTTLED_MEGABITS_PER_S)


def _congestion(step: int) -> None:
    if step % _BURST_EVERY == 0:
        _limit(_THROTTLED_MEGABITS_PER_S)
    elif step % _BURST_EVERY == _BURST_STEPS:
        _limit(MEGABITS_PER_S)


def _input_staging(step: int) -> None:
    time.sleep(_DELAY_S)


FAULTS: dict[str, Callable[[int], None]] = {
    "none": _none,
    "slow rank": _slow_rank,
    "slow link": _slow_link,
    "congestion bursts": _congestion,
    "input staging": _input_staging,
}


def _limit(megabits_per_s: int) -> None:
    """From now on, the rate of this emulated host's end of the link."""
    rate = ("rate", f"{megabits_per_s}mbit", "burst", "36kb", "latency", "20ms")
    subprocess.run(["tc", "qdisc", "change", "dev", os.environ["GLOO_SOCKET_IFNAME"], "root", "tbf", *rate], check=True)
