"""Attention of queries that look at some of the keys, as their share of attention to all of them.

Each rank has the scores of its own keys. Ranks merge the logarithms of their sums, one number per query:

    total = log(sum over ranks of exp(own total)),  share = exp(scores - total) x values

The shares of all ranks add up to what one device computes. Backward sums one number per query over the ranks. As in
fused attention, scores are not kept but computed again.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.runtime.clock import span
from slicewise.runtime.collectives import all_gather, all_reduce

_NARROW = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyParts:
    """Who has the other keys."""

    layer: str
    group: dist.ProcessGroup | None
    ranks: int

    def total(self, own: Tensor) -> Tensor:
        """Of the logarithms of sums: that of the sum over all ranks."""
        with span("reduce", self.layer):
            parts = all_gather(own, self.ranks, self.group).view(self.ranks, *own.shape)
        return parts.logsumexp(0)

    def summed(self, own: Tensor) -> Tensor:
        with span("reduce", self.layer):
            all_reduce(own, self.group)
        return own


def attention_share(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, kept: Tensor | None, parts: KeyParts
) -> Tensor:
    """`bias` is added to the scores; `kept` is what a dropout multiplies their exponentials with."""
    share: Tensor = _Share.apply(query, key, value, bias, scale, kept, parts)
    return share


def scores_of(query: Tensor, key: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    scores = query @ key.transpose(-2, -1) * scale
    return scores if bias is None else scores + bias


def shares_of(scores: Tensor, total: Tensor) -> Tensor:
    """A query that may look at no key at all has none."""
    return (scores - total.masked_fill(total == -torch.inf, 0.0)).exp_()


class _Share(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        scale: float,
        kept: Tensor | None,
        parts: KeyParts,
    ) -> Tensor:
        q, k, v = (exact(x) for x in (query, key, value))
        scores = scores_of(q, k, bias, scale)
        total = parts.total(scores.logsumexp(-1, keepdim=True))
        shares = shares_of(scores, total)
        ctx.save_for_backward(query, key, value, bias, kept, total)
        ctx.scale, ctx.parts = scale, parts
        return ((shares if kept is None else shares * kept) @ v).to(query.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """d scores = shares (d shares - sum over all keys of shares x d shares)."""
        query, key, value, bias, kept, total = ctx.saved_tensors
        q, k, v, dy = (exact(x) for x in (query, key, value, gradients[0]))
        shares = shares_of(scores_of(q, k, bias, ctx.scale), total)
        d_value = (shares if kept is None else shares * kept).transpose(-2, -1) @ dy
        d_shares = dy @ v.transpose(-2, -1)
        d_shares = d_shares if kept is None else d_shares * kept
        along = ctx.parts.summed((shares * d_shares).sum(-1, keepdim=True))
        d_scores = shares * (d_shares - along)
        d_query, d_key = d_scores @ k * ctx.scale, d_scores.transpose(-2, -1) @ q * ctx.scale
        return (
            d_query.sum_to_size(query.shape).to(query.dtype),
            d_key.sum_to_size(key.shape).to(key.dtype),
            d_value.sum_to_size(value.shape).to(value.dtype),
            d_scores.sum_to_size(bias.shape).to(bias.dtype) if bias is not None and ctx.needs_input_grad[3] else None,
            None,
            None,
            None,
        )


def exact(x: Tensor) -> Tensor:
    return x.float() if x.dtype in _NARROW else x
