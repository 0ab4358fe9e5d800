"""Data + filter: p1 groups share the samples, the p2 devices of a group share the filters.

    compute          (D/p) S(FW + BW) + (D/(B p2)) S(WU)
    communication    3 (D/B) (p2 - 1) S_{l<G}(alpha + B y delta beta / p)         inside a group
                     + 2 (D/B) (p1 - 1) (alpha + S(w) delta beta / p)             between groups, one shard each
    memory           M(B/p1, w/p2)
    limit            p1 p2 <= B min F

The p2 exchanges between groups run at once: where they leave a node through the same ports, each gets its share (phi).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.strategies.filter import check_filters, cut_layers, gathered
from slicewise.strategies.setting import Setting, Terms, every_possible, parts


def project(at: Setting) -> Iterator[Terms]:
    yield from every_possible(at.splits(), lambda split: [_split(at, *split)])


def _split(at: Setting, p1: int, p2: int) -> Terms:
    if p1 > at.batch:
        raise InfeasibleError(f"samples: a batch of {at.batch} does not reach {p1} groups")
    cut = cut_layers(at)
    check_filters(at, cut, p2)
    samples = parts(at.batch, p1)
    exchanged = float((at.profile.w * np.where(cut, 1 / p2, 1.0)).sum())
    return replace(
        at.sharded("filter", cut, samples, p2),
        gradient_s=at.all_reduce_s(exchanged, p1, p2, messages=at.hybrid_messages),
        gradient_items=exchanged,
        layerwise_s=at.layerwise_s(samples * gathered(at, cut), p2)
        + at.statistics_s(at.profile.statistics([Dim.N]) / p2, p1, stride=p2),
        split=f"{p1}x{p2}",
    )
