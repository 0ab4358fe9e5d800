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
from slicewise.runtime.collectives import all_gather, all_reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatistics:
    """Where a norm's statistics come from."""

    layer: str
    group: dist.ProcessGroup | None
    counts: tuple[int, ...]  # positions that each member sees, in group order

    def merged(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over all members, from this one's."""
        mine = torch.stack([mean, variance])
        with span("reduce", self.layer):
            parts = all_gather(mine, len(self.counts), self.group).view(len(self.counts), *mine.shape)
        share = mean.new_tensor(self.counts).div_(self.count).unsqueeze_(1)
        means, variances = parts[:, 0], parts[:, 1]
        whole_mean = (share * means).sum(0)
        return whole_mean, (share * (variances + (means - whole_mean) ** 2)).sum(0)

    def summed(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Two sums, reduced over all members in one message."""
        both = torch.stack([first, second])
        with span("reduce", self.layer):
            all_reduce(both, self.group)
        return both[0], both[1]

    @property
    def count(self) -> int:
        return sum(self.counts)


def shared_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: SharedStatistics
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance (for running statistics).

    These are one per channel, dim 1 of x; other norms put what shares statistics into a channel of its own.
    Around the exchange it is torch's own fused operators.
    """
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
