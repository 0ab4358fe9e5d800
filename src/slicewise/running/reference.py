"""A fixed piece of work, timed when the machine is calibrated and around the steps of a run: has it changed since?"""

from dataclasses import dataclass, field
from statistics import fmean

import torch
import torch.distributed as dist
import torch.nn.functional as F

from slicewise.cluster.cluster import Cluster
from slicewise.running.stopwatch import timed_s
from slicewise.runtime.devices import rank_device

_ROUNDS = 7


def reference_s() -> float:
    """Forward and backward of a convolution, and a pass over memory, all ranks at once; of the slower rank."""
    device = rank_device()
    x = torch.ones(8, 32, 56, 56, device=device, requires_grad=True)
    weight = torch.ones(32, 32, 3, 3, device=device, requires_grad=True)
    memory = torch.ones(2**22, device=device)

    def work() -> None:
        torch.autograd.grad(F.conv2d(x, weight, padding=1).sum(), (x, weight))
        memory.mul(2.0)

    return timed_s(work, _ROUNDS)


@dataclass(frozen=True, slots=True)
class Reference:
    """Compares this machine with what it was when `cluster` was measured, on as many ranks."""

    cluster: Cluster | None
    seen_s: list[float] = field(default_factory=list)

    def look(self) -> None:
        if self._calibrated_s:
            self.seen_s.append(reference_s())

    @property
    def drift(self) -> float | None:
        """1.3: the same work takes 1.3 times as long; None where there is nothing to compare with."""
        return fmean(self.seen_s) / self._calibrated_s if self.seen_s and self._calibrated_s else None

    @property
    def _calibrated_s(self) -> float | None:
        cluster = self.cluster
        if cluster is None or cluster.measured_on is None or cluster.measured_on.ranks != dist.get_world_size():
            return None
        return cluster.reference_s
