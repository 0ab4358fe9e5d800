"""Normalisation whose statistics span several ranks, or chunks of samples, exactly as one device computes them.

Ranks merge (count, mean, M2) by Chan's formula: sums of squares would lose everything in fp32. Counts follow from the
layout, so only means and M2 travel: one gather forward, one all-reduce of two sums backward, for all chunks at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.runtime.clock import span
from slicewise.runtime.collectives import all_gather, all_reduce
from slicewise.runtime.constants import Constant

_NARROW = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatistics:
    """Where a norm's statistics come from, and for which samples: means and the like are [chunk, channel]."""

    layer: str
    group: dist.ProcessGroup | None
    counts: tuple[tuple[int, ...], ...]  # positions that each member, in group order, sees of each chunk
    chunks: tuple[int, ...] = ()  # this rank's samples of each; none where all samples share statistics
    shares: Constant = field(init=False, compare=False)  # of each member in each chunk: [member, chunk, 1]
    sizes: Constant = field(init=False, compare=False)  # positions of each chunk: [chunk, 1]

    def __post_init__(self) -> None:
        counts = torch.tensor(self.counts, dtype=torch.float64)
        object.__setattr__(self, "shares", Constant((counts / counts.sum(0)).unsqueeze(2)))
        object.__setattr__(self, "sizes", Constant(counts.sum(0).unsqueeze(1)))

    def merged(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance over all members, from this one's."""
        mine = torch.stack([mean, variance])
        with span("reduce", self.layer):
            parts = all_gather(mine, len(self.counts), self.group).view(len(self.counts), *mine.shape)
        share = self.shares.like(mean)
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
    def totals(self) -> tuple[int, ...]:
        """Positions of each chunk."""
        return tuple(map(sum, zip(*self.counts, strict=True)))

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """Chunk by chunk; views."""
        return x.split(self.chunks) if self.chunks else (x,)

    def per_sample(self, factor: Tensor, x: Tensor) -> Tensor:
        """A number per chunk and channel, as something to multiply `x` with."""
        if len(factor) > 1:
            factor = torch.cat([row.expand(size, -1) for row, size in zip(factor, self.chunks, strict=True)])
        return factor.to(x.dtype).view(*factor.shape, *[1] * (x.dim() - 2))


def shared_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, statistics: SharedStatistics
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance (for running statistics).

    These are one per chunk and channel, dims 0 and 1 of x; other norms put what shares statistics into a channel of
    its own. Around the exchange it is torch's own fused operators.
    """
    weight, bias = (w.float() if w is not None and w.dtype in _NARROW else w for w in (weight, bias))
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
        exact = x.float() if x.dtype in _NARROW else x
        own = [torch.batch_norm_update_stats(part, None, None, 0.0) for part in statistics.split(exact)]
        mean, variance = statistics.merged(*map(_rows, zip(*own, strict=True)))
        ctx.save_for_backward(x, weight, mean, torch.rsqrt(variance + eps))
        ctx.statistics, ctx.has_bias, ctx.eps = statistics, bias is not None, eps
        ctx.mark_non_differentiable(mean, variance)
        y = torch.empty_like(x)
        unused = mean.new_empty(0), mean.new_empty(0)
        for part, result, its_mean, its_variance in zip(
            statistics.split(x), statistics.split(y), mean, variance, strict=True
        ):
            # what eval mode does: normalise by given statistics
            torch.native_batch_norm(part, weight, bias, its_mean, its_variance, False, 0.0, eps, out=(result, *unused))
        return y, mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """dx = scale w (dy - sum(dy) / n - normal sum(dy normal) / n): x, dy and 1 times factors per channel."""
        x, weight, mean, scale = ctx.saved_tensors
        statistics: SharedStatistics = ctx.statistics
        dy = gradients[0].contiguous()
        ones = torch.ones_like(mean[0]) if weight is None else weight
        # this rank's part of the weight gradients; the gradient sync adds the others'
        own = [
            torch.ops.aten.native_batch_norm_backward(
                from_y, part, ones, None, None, its_mean, its_scale, True, ctx.eps, [False, True, True]
            )[1:]
            for from_y, part, its_mean, its_scale in zip(
                statistics.split(dy), statistics.split(x), mean, scale, strict=True
            )
        ]
        d_weight, d_bias = map(_rows, zip(*own, strict=True))
        total, along = statistics.summed(d_bias, d_weight)
        totals = statistics.totals
        count = totals[0] if len(set(totals)) == 1 else statistics.sizes.like(mean)
        from_dy = scale * ones
        from_x = -from_dy * scale * along / count
        constant = -from_dy * total / count - from_x * mean
        from_dy, from_x, constant = (statistics.per_sample(factor, x) for factor in (from_dy, from_x, constant))
        dx = torch.addcmul(constant, x, from_x).addcmul_(dy, from_dy)
        return (
            dx,
            None if weight is None else _sum(d_weight),
            _sum(d_bias) if ctx.has_bias else None,
            None,
            None,
        )


# most norms have one chunk: no kernel to stack it, none to sum it
def _rows(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(list(parts))


def _sum(rows: Tensor) -> Tensor:
    return rows[0] if len(rows) == 1 else rows.sum(0)
