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

    def merged(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over all members, from this one's."""
        mine = torch.stack([mean, variance])
        with span("reduce", self.layer):
            parts = all_gather(mine, len(self.counts), self.group).view(len(self.counts), *mine.shape)
        share = torch.tensor(self.counts, dtype=mean.dtype, device=mean.device) / self.count
        share = share.view(-1, *[1] * mean.dim())
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


def shared_batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: SharedStatistics
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm with torch's own fused operators around the exchange; mean and variance are one per channel."""
    y, mean, variance = _SharedBatchNorm.apply(x, weight, bias, eps, statistics)
    return y, mean, variance


class _SharedBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        statistics: SharedStatistics,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # statistics of narrow types are taken, sent and kept in fp32, as torch's own batch norm has them
        exact = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        mean, variance = statistics.merged(*torch.batch_norm_update_stats(exact, None, None, 0.0))
        ctx.save_for_backward(x, weight, mean, torch.rsqrt(variance + eps))
        ctx.statistics, ctx.has_bias, ctx.eps = statistics, bias is not None, eps
        ctx.mark_non_differentiable(mean, variance)
        # what eval mode does: normalise by given statistics
        y, _, _ = torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, eps)
        return y, mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """dx = scale w (dy - sum(dy) / n - normal sum(dy normal) / n): x, dy and 1 times factors per channel."""
        x, weight, mean, scale = ctx.saved_tensors
        statistics: SharedStatistics = ctx.statistics
        dy = gradients[0].contiguous()
        ones = torch.ones_like(mean) if weight is None else weight
        # this rank's part of the weight gradients; the gradient sync adds the others'
        _, d_weight, d_bias = torch.ops.aten.native_batch_norm_backward(
            dy, x, ones, None, None, mean, scale, True, ctx.eps, [False, True, True]
        )
        total, along = statistics.summed(d_bias, d_weight)
        from_dy = scale * ones
        from_x = -from_dy * scale * along / statistics.count
        constant = -from_dy * total / statistics.count - from_x * mean
        from_dy, from_x, constant = (f.to(x.dtype).view(-1, *[1] * (x.dim() - 2)) for f in (from_dy, from_x, constant))
        dx = torch.addcmul(constant, x, from_x).addcmul_(dy, from_dy)
        return dx, None if weight is None else d_weight, d_bias if ctx.has_bias else None, None, None


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
        variance, mean = torch.var_mean(x, statistics.dims, correction=0, keepdim=True)
        mean, variance = statistics.merged(mean, variance)
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
