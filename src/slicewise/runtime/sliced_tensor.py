"""What a network returns for a batch that ranks do not share out by sample: a DTensor whose losses are right.

DTensor computes point-wise functions and sums rightly. Its means are averages of the ranks' means, which is wrong for
parts of different sizes and for ignored targets, and the gradients of several of its fused losses (torch 2.13: mse,
smooth L1, Huber, binary cross-entropy) are off. Here a mean is a sum over all ranks divided by a count over all ranks.

What DTensor leaves to be summed later is summed at once. Otherwise `item()` of it would be one rank's share, and a sum
of norms a sum of shares. It also means that no rank waits for others when it alone prints a loss.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement
from torch.utils._pytree import tree_map_only

from slicewise.errors import PlanError


class SlicedTensor(DTensor):
    """A DTensor; what is computed from it is one too."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in _LOSSES:
            return _LOSSES[func](func, *args, **named)
        if func in (torch.mean, Tensor.mean):
            return _mean(*args, **named)
        with torch._C.DisableTorchFunctionSubclass():
            return tree_map_only(DTensor, _settled, func(*args, **named))


def _settled(tensor: DTensor) -> SlicedTensor:
    """Nothing left to be summed."""
    if any(placement.is_partial() for placement in tensor.placements):
        tensor = tensor.redistribute(placements=[Replicate() if p.is_partial() else p for p in tensor.placements])
    return as_sliced(tensor)


def as_sliced(tensor: DTensor) -> SlicedTensor:
    if not isinstance(tensor, SlicedTensor):
        tensor.__class__ = SlicedTensor
    assert isinstance(tensor, SlicedTensor)
    return tensor


def sliced_tensor(
    local: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...]
) -> SlicedTensor:
    """`local` as this rank's part of a tensor of that shape; differentiable."""
    stride = torch.empty(shape, device="meta").stride()
    made = DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)
    return as_sliced(made)


def _mean(x: DTensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if dim is None:
        return x.sum(dtype=dtype) / x.numel()
    total = x.sum(dim, keepdim=keepdim, dtype=dtype)
    return total / (x.numel() // max(total.numel(), 1))


def _pointwise_loss(loss: Callable[..., Tensor], x: DTensor, target: Tensor, *args: Any, **named: Any) -> Any:
    """One value per item; `reduction` is given by name, as everybody does."""
    reduction = named.pop("reduction", "mean")
    own, wanted = x.to_local(), _part(target)
    if wanted.shape != own.shape:
        shapes = f"{tuple(wanted.shape)}, this rank's part of the output {tuple(own.shape)}"
        raise PlanError(f"the loss's target has shape {shapes}; net.shard(target) cuts a whole one")
    values = loss(own, wanted, *args, **named, reduction="none")
    if reduction == "none":
        return sliced_tensor(values, x.device_mesh, x.placements, tuple(x.shape))
    count = {"sum": 1, "mean": x.numel(), "batchmean": x.shape[0]}[reduction]
    return _total(values.sum(), x) / count


def _class_loss(
    loss: Callable[..., Tensor],
    x: DTensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    **named: Any,
) -> Any:
    """Cross-entropy and negative log-likelihood: a mean divides by what was not ignored, weighted."""
    whole = as_sliced(x.redistribute(placements=[Replicate() if p == Shard(1) else p for p in x.placements]))
    mine = _part(target)
    with_classes = mine.is_floating_point()  # probabilities of classes
    if with_classes:
        values = loss(whole.to_local(), mine, weight, reduction="none", **named)
        items = values.new_full((), whole.numel() // whole.shape[1])
    else:
        values = loss(whole.to_local(), mine, weight, ignore_index=ignore_index, reduction="none", **named)
        counted = (mine != ignore_index).to(values.dtype)
        if weight is not None:
            counted = counted * weight[mine.clamp(0, len(weight) - 1)]
        items = _total(counted.sum(), whole).detach()
    if reduction == "none":
        shape = (whole.shape[0], *whole.shape[2:])
        placements = tuple(Shard(p.dim - 1) if isinstance(p, Shard) and p.dim > 1 else p for p in whole.placements)
        return sliced_tensor(values, whole.device_mesh, placements, shape)
    total = _total(values.sum(), whole)
    return total if reduction == "sum" else total / items


def _total(mine: Tensor, x: DTensor) -> SlicedTensor:
    """The sum of a number over the ranks that hold different parts of `x`, the same on every rank."""
    placements = tuple(Partial() if isinstance(p, Shard) else Replicate() for p in x.placements)
    summed = sliced_tensor(mine, x.device_mesh, placements, ())
    return as_sliced(summed.redistribute(placements=[Replicate()] * len(placements)))


def _part(target: Tensor) -> Tensor:
    """This rank's part of a target: a DTensor as `net.shard` makes it, or the part itself."""
    return target.to_local() if isinstance(target, DTensor) else target


_LOSSES: dict[Callable[..., Any], Callable[..., Any]] = {
    F.cross_entropy: _class_loss,
    F.nll_loss: _class_loss,
    **dict.fromkeys(
        (
            F.mse_loss,
            F.l1_loss,
            F.smooth_l1_loss,
            F.huber_loss,
            F.binary_cross_entropy,
            F.binary_cross_entropy_with_logits,
            F.kl_div,
            F.poisson_nll_loss,
            F.soft_margin_loss,
        ),
        _pointwise_loss,
    ),
}
