"""Data + sequence: p1 groups share the samples, the p2 devices of a group share the tokens.

    compute          (D/p) S(FW + BW) + (D/B) S(WU)                                   of layers of tokens; others D/p1
    communication    2 (D/B) (p2 - 1) (alpha + S(w) delta beta / p2)                  gradients, in the group
                     + 2 (D/B) (p1 - 1) (alpha + S(w) delta beta / p1)                gradients, between groups
                     + 2 (D/B) (p2 - 1) S(alpha + (B/p1) (k + v) delta beta / p2)     keys and values, in the group
                     + (D/B) (p2 - 1) S(alpha + (B/p1) y delta beta / p2)             gathers where tokens end
                     + 2 (D/B) S(2 alpha + (B/p1) (halo(x) + halo(dL/dy)) delta beta) halos, where windows overlap
    memory           M(B/p, w) + (B/p1) S(k + v) delta (1 - 1/p2)                     of layers of tokens; others B/p1
    limit            p1 p2 <= B min tokens

The p2 exchanges between groups run at once: where they leave a node through the same ports, each gets its share (phi).
"""

from collections.abc import Iterator
from dataclasses import replace

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.strategies.sequence import shared_tokens
from slicewise.strategies.setting import Setting, Terms, every_possible, parts


def project(at: Setting) -> Iterator[Terms]:
    yield from every_possible(at.splits(), lambda split: [_split(at, *split)])


def _split(at: Setting, p1: int, p2: int) -> Terms:
    if p1 > at.batch:
        raise InfeasibleError(f"samples: a batch of {at.batch} does not reach {p1} groups")
    inside = shared_tokens(at, parts(at.batch, p1), p2)
    between_s = at.all_reduce_s(at.all_weights, p1, p2, messages=at.hybrid_messages)
    statistics_s = at.statistics_s(at.profile.statistics([Dim.N]), p1, stride=p2)
    return replace(
        inside,
        gradient_s=inside.gradient_s + between_s,
        gradient_items=at.all_weights,
        layerwise_s=inside.layerwise_s + statistics_s,
        split=f"{p1}x{p2}",
    )
