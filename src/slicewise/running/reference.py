"""A fixed piece of work, timed when the machine is calibrated and around the steps of a run: has it changed since?

A machine that others use is slow for a second now and then. So who compares looks several times, and takes the median.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from slicewise.cluster.cluster import Cluster
from slicewise.running.stopwatch import timed_s
from slicewise.runtime.devices import rank_device

_ROUNDS = 5


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


def drift(cluster: Cluster | None) -> float | None:
    """What that takes now over what it took when `cluster` was measured, on as many ranks: 1.3 is slower.

    None where there is nothing to compare with.
    """
    if cluster is None or cluster.reference_s is None or cluster.measured_on is None:
        return None
    return reference_s() / cluster.reference_s if cluster.measured_on.ranks == dist.get_world_size() else None
