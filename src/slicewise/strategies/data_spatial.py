"""Data + spatial: p1 groups share the samples, the p2 devices of a group share the space of the first layers.

    compute          (D/p) S_split(FW + BW) + (D/p1) S_rest(FW + BW) + (D/B) S(WU)
    communication    2 (D/B) S_split(2 alpha + (B/p1) (halo(x) + halo(dL/dy)) delta beta)    halo, in the group
                     + (D/B) (p2 - 1) (alpha + (B/p1) y delta beta / p2)                     gather where the split ends
                     + 2 (D/B) (p2 - 1) (alpha + S(w) delta beta / p2)                       gradients, in the group
                     + 2 (D/B) (p1 - 1) (alpha + S(w) delta beta / p1)                       gradients, among p1 leaders
    memory           M_split(B/p, w) + M_rest(B/p1, w)
    limit            p1 p2 <= B min (W H)

Only leaders speak between groups, so no flows of a node share its ports there unless several groups sit in it.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.strategies.setting import Setting, Terms, every_possible, parts
from slicewise.strategies.space import best_depth, divided


def project(at: Setting) -> Iterator[Terms]:
    yield from every_possible(at.splits(), lambda split: _split(at, *split))


def _split(at: Setting, p1: int, p2: int) -> Iterator[Terms]:
    if p1 > at.batch:
        raise InfeasibleError(f"samples: a batch of {at.batch} does not reach {p1} groups")
    samples = parts(at.batch, p1)
    leaders_s = at.all_reduce_s(at.all_weights, p1, p2, idle=p2, messages=at.hybrid_messages, staged=True)
    for found in divided(at, samples, p2):
        terms, inside = best_depth(at, found)
        yield replace(
            terms,
            gradient_s=terms.gradient_s + leaders_s,
            layerwise_s=terms.layerwise_s + _statistics_s(at, inside, p1, p2),
            split=f"{p1}x{p2}, {terms.split}",
        )


def _statistics_s(at: Setting, inside: NDArray[np.bool_], p1: int, p2: int) -> float:
    """Over all devices where a norm spans samples and split space, else over the groups or inside one."""
    samples, space = at.profile.statistics([Dim.N]), at.profile.statistics(SPACE)
    return (
        at.statistics_s(np.where(inside, samples, 0.0), at.devices)
        + at.statistics_s(np.where(inside & (samples == 0), space, 0.0), p2)
        + at.statistics_s(np.where(inside, 0.0, samples), p1, stride=p2)
    )
