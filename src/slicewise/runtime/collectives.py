"""The collectives the runtime uses, under the names of the installed torch."""

import torch.distributed as dist
from torch import Tensor

# torch 2.13 renamed all_gather_into_tensor and deprecates the old name.
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def all_gather(x: Tensor, members: int, group: dist.ProcessGroup | None) -> Tensor:
    """Every member's `x`, joined along dim 0."""
    parts = x.new_empty((members * x.shape[0], *x.shape[1:]))
    _gather(parts, x.contiguous(), group=group)
    return parts
