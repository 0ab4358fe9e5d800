"""Normalisation whose statistics span several ranks, exactly as one device computes them.

Ranks merge (count, mean, M2) by Chan's formula: sums of squares would lose everything in fp32. Counts follow from the
layout, so only means and M2 travel: one gather forward, one all-reduce of two sums backward.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.runtime.clock import span
from slicewise.runtime.collectives import all_gather


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatistics:
    """Where a norm's statistics come from."""

    layer: str
    group: dist.ProcessGroup | None
    counts: tuple[int, ...]  # positions that each member sees, in group order
    dims: tuple[int, ...]  # tensor dims that the statistics span

    def merged(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over all members, kept dims of size 1."""
        variance, mean = torch.var_mean(x, self.dims, correction=0, keepdim=True)
        mine = torch.stack([mean, variance])
        with span("reduce", self.layer):
            parts = all_gather(mine, len(self.counts), self.group).view(len(self.counts), *mine.shape)
        share = torch.tensor(self.counts, dtype=x.dtype, device=x.device) / sum(self.counts)
        share = share.view(-1, *[1] * x.dim())
        means, variances = parts[:, 0], parts[:, 1]
        whole_mean = (share * means).sum(0)
        return whole_mean, (share * (variances + (means - whole_mean) ** 2)).sum(0)

    def summed(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Two sums, reduced over all members in one message."""
        both = torch.stack([first, second])
        with span("reduce", self.layer):
            dist.all_reduce(both, group=self.group)
        return both[0], both[1]

    @property
    def count(self) -> int:
        return sum(self.counts)


def shared_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: SharedStatistics
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance (for running statistics).

    Weight and bias have the dims of x, or of its last ones: they are broadcast.
    """
    if weight is None and bias is not None:
        weight = torch.ones_like(bias)
    y, mean, variance = _SharedNorm.apply(x, weight, bias, eps, statistics)
    return y, mean, variance


class _SharedNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        statistics: SharedStatistics,
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = statistics.merged(x)
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.statistics, ctx.bias_shape = statistics, None if bias is None else bias.shape
        ctx.mark_non_differentiable(mean, variance)
        gain = scale if weight is None else scale * weight
        shift = -mean * gain if bias is None else bias - mean * gain
        return torch.addcmul(shift, x, gain), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale = ctx.saved_tensors
        statistics: SharedStatistics = ctx.statistics
        dy = gradients[0]
        normal = (x - mean) * scale
        dy_normal = dy * normal
        varies = weight is not None and _varies(weight, x, statistics.dims)
        sums = [(d * weight if varies else d).sum(statistics.dims, keepdim=True) for d in (dy, dy_normal)]
        # this rank's part of the weight gradients; the gradient sync adds the others'
        whole_dy, whole_dy_normal = (dy, dy_normal) if varies else sums
        d_weight = None if weight is None else whole_dy_normal.sum_to_size(weight.shape)
        d_bias = None if ctx.bias_shape is None else whole_dy.sum_to_size(ctx.bias_shape)
        total, along = statistics.summed(*sums)
        if weight is None:
            dx = scale * (dy - (total + normal * along) / statistics.count)
        elif varies:
            dx = scale * (dy * weight - (total + normal * along) / statistics.count)
        else:
            dx = scale * weight * (dy - (total + normal * along) / statistics.count)
        return dx, d_weight, d_bias, None, None


def _varies(weight: Tensor, x: Tensor, dims: tuple[int, ...]) -> bool:
    """Whether positions with common statistics have different weights."""
    missing = x.dim() - weight.dim()
    return any(dim >= missing and weight.shape[dim - missing] > 1 for dim in dims)
