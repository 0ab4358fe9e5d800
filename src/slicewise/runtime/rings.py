"""Attention of a rank's queries to all keys, which are passed round: each rank hands on what it has just computed with.

    rank 0:  keys 0  keys 3  keys 2  keys 1
    rank 1:  keys 1  keys 0  keys 3  keys 2          4 ranks, 4 turns: the next part travels while this one is used

A rank holds two parts of keys and values at a time. Outputs of several parts are merged by the logarithms of their
sums, as in runtime/keys.py. Backward passes keys and values round again, and behind them their gradients: each rank
adds its own, and with the last turn they are home.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.graph.rings import ROWS_AT_ONCE
from slicewise.runtime.clock import span
from slicewise.runtime.collectives import finish, start_all_to_all
from slicewise.runtime.keys import exact, scores_of, shares_of

Flight = tuple[Tensor, Tensor, list[dist.Work | None]]  # what comes, what goes, and the handles


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Who is next, and which keys every rank begins with."""

    layer: str
    group: dist.ProcessGroup | None
    me: int
    parts: tuple[tuple[int, int], ...]  # first key and the one behind the last, of each member

    @property
    def turns(self) -> int:
        return len(self.parts)

    def block(self, turn: int) -> int:
        """Whose keys are here at a turn."""
        return (self.me - turn) % self.turns

    def pass_on(self, sent: Tensor, items: int) -> Flight:
        """To the next rank, and `items` from the one before; complete once it is awaited."""
        received = sent.new_empty(items)
        receives, sends = [0] * self.turns, [0] * self.turns
        receives[(self.me - 1) % self.turns], sends[(self.me + 1) % self.turns] = items, sent.numel()
        with span("halo", self.layer):
            return received, sent, start_all_to_all(received, sent, (receives, sends), self.group)

    def await_(self, flight: Flight) -> Tensor:
        received, sent, works = flight
        with span("halo", self.layer):
            for work in works:
                finish(work, sent)
        return received


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Keys and values of one part, packed into one message."""

    key: torch.Size
    value: torch.Size

    def items(self, keys: int) -> int:
        return sum(size.numel() // size[-2] * keys for size in (self.key, self.value))

    def packed(self, key: Tensor, value: Tensor) -> Tensor:
        return torch.cat([key.reshape(-1), value.reshape(-1)])

    def unpacked(self, flat: Tensor, keys: int) -> tuple[Tensor, Tensor]:
        shapes = [(*size[:-2], keys, size[-1]) for size in (self.key, self.value)]
        first = shapes[0]
        cut = flat.numel() - self.value.numel() // self.value[-2] * keys
        return flat[:cut].view(first), flat[cut:].view(shapes[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What becomes of a query and a key: their product by `scale`, and a dropout of what its softmax makes of them."""

    scale: float
    heads: int  # queries' heads that share a key
    queries: tuple[int, int]
    causal: bool
    dropout: float
    seeds: tuple[int, ...]  # of the dropout, part by part

    def rows(self) -> Iterator[slice]:
        """Queries whose scores are there at once."""
        count = self.queries[1] - self.queries[0]
        return (slice(first, min(first + ROWS_AT_ONCE, count)) for first in range(0, count, ROWS_AT_ONCE))

    def bias(self, mask: Tensor | None, rows: slice, keys: tuple[int, int], query: Tensor) -> Tensor | None:
        """Of some queries and one part of the keys: what is added to their scores."""
        if self.causal:
            places = torch.arange(*self.queries, device=query.device)[rows, None]
            hidden = torch.arange(*keys, device=query.device) > places
            return query.new_zeros(hidden.shape).masked_fill(hidden, -torch.inf)
        return None if mask is None else cut(mask, rows, keys)

    def generator(self, device: torch.device, block: int) -> torch.Generator | None:
        """The same numbers in backward."""
        return torch.Generator(device=device).manual_seed(self.seeds[block]) if self.dropout else None

    def kept(self, shares: Tensor, generator: torch.Generator | None) -> Tensor | None:
        if generator is None:
            return None
        kept = torch.empty_like(shares)
        return kept.bernoulli_(1 - self.dropout, generator=generator).div_(1 - self.dropout)

    def shared(self, x: Tensor) -> Tensor:
        """Once for every head that reads it."""
        return x.repeat_interleave(self.heads, -3) if self.heads > 1 else x

    def summed(self, x: Tensor) -> Tensor:
        return x.unflatten(-3, (-1, self.heads)).sum(-3) if self.heads > 1 else x


def cut(mask: Tensor, rows: slice, keys: tuple[int, int]) -> Tensor:
    """Of some queries and keys; a mask may have one row or column for all."""
    if mask.dim() > 1 and mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    return mask if mask.shape[-1] == 1 else mask[..., slice(*keys)]


def ring_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scoring: Scoring, ring: Ring
) -> Tensor:
    """`mask` is added to the scores of the rank's queries with all keys."""
    y: Tensor = _Round.apply(query, key, value, mask, scoring, ring)
    return y


def _going_round(ring: Ring, pair: _Pair, key: Tensor, value: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Turn by turn: whose keys and values these are, and they."""
    held = pair.packed(key, value)
    for turn in range(ring.turns):
        start, stop = ring.parts[ring.block(turn)]
        flight = None
        if turn + 1 < ring.turns:
            first, behind = ring.parts[ring.block(turn + 1)]
            flight = ring.pass_on(held, pair.items(behind - first))
        yield ring.block(turn), *pair.unpacked(held, stop - start)
        if flight is not None:
            held = ring.await_(flight)


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scoring: Scoring, ring: Ring
    ) -> Tensor:
        q, pair = exact(query), _Pair(key=key.shape, value=value.shape)
        y = q.new_zeros(*q.shape[:-1], value.shape[-1])
        total = q.new_full((*q.shape[:-1], 1), -torch.inf)
        for block, k, v in _going_round(ring, pair, key, value):
            k, v = scoring.shared(exact(k)), scoring.shared(exact(v))
            generator = scoring.generator(q.device, block)
            for rows in scoring.rows():
                here, before = q[..., rows, :], total[..., rows, :]
                scores = scores_of(here, k, scoring.bias(mask, rows, ring.parts[block], q), scoring.scale)
                merged = torch.logaddexp(before, scores.logsumexp(-1, keepdim=True))
                shares = shares_of(scores, merged)
                kept = scoring.kept(shares, generator)
                part = (shares if kept is None else shares * kept) @ v
                y[..., rows, :] = y[..., rows, :] * shares_of(before, merged) + part
                total[..., rows, :] = merged
        result = y.to(query.dtype)
        ctx.save_for_backward(query, key, value, mask, total, result)
        ctx.scoring, ctx.ring, ctx.pair = scoring, ring, pair
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """d scores = shares (d shares - dy y): the sum over all keys of shares x d shares is that of dy y."""
        query, key, value, mask, total, y = ctx.saved_tensors
        scoring, ring, pair = ctx.scoring, ctx.ring, ctx.pair
        q, dy = exact(query), exact(gradients[0])
        along = (dy * exact(y)).sum(-1, keepdim=True)
        returns = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        d_query = torch.zeros_like(q)
        d_mask = torch.zeros_like(mask) if mask is not None and ctx.needs_input_grad[3] else None
        home, flight = None, None  # gradients of the rank's own keys; those of others, on their way
        for turn, (block, k, v) in enumerate(_going_round(ring, pair, key, value)):
            keys, sizes = ring.parts[block], (k.shape, v.shape)
            k, v = scoring.shared(exact(k)), scoring.shared(exact(v))
            generator = scoring.generator(q.device, block)
            d_k, d_v = q.new_zeros(sizes[0]), q.new_zeros(sizes[1])
            for rows in scoring.rows():
                here, d_here = q[..., rows, :], dy[..., rows, :]
                scores = scores_of(here, k, scoring.bias(mask, rows, keys, q), scoring.scale)
                shares = shares_of(scores, total[..., rows, :])
                kept = scoring.kept(shares, generator)
                d_shares = d_here @ v.transpose(-2, -1)
                d_scores = shares * ((d_shares if kept is None else d_shares * kept) - along[..., rows, :])
                d_query[..., rows, :] += d_scores @ k * scoring.scale
                if d_mask is not None:
                    part = cut(d_mask, rows, keys)
                    part += d_scores.sum_to_size(part.shape).to(part.dtype)
                if returns:
                    dropped = shares if kept is None else shares * kept
                    d_k += scoring.summed(d_scores.transpose(-2, -1) @ here * scoring.scale).sum_to_size(d_k.shape)
                    d_v += scoring.summed(dropped.transpose(-2, -1) @ d_here).sum_to_size(d_v.shape)
            if not returns:
                continue
            own = pair.packed(d_k, d_v).to(key.dtype)
            if turn == 0:
                home = own
                continue
            own = own if flight is None else ring.await_(flight).add_(own)
            first, behind = ring.parts[ring.block(turn + 1)]
            flight = ring.pass_on(own, pair.items(behind - first))
        d_key = d_value = None
        if returns and home is not None:
            complete = home if flight is None else ring.await_(flight).add_(home)
            d_key, d_value = pair.unpacked(complete, key.shape[-2])
        return d_query.to(query.dtype), d_key, d_value, d_mask, None, None
