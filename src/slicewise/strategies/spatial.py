"""Spatial: all devices share every sample's space, over the first layers.

    compute          (D/p) S(FW + BW) + (D/B) S(WU)                                       of split layers; others whole
    communication    2 (D/B) [(p - 1) (alpha + S(w) delta beta / p)                       gradients of all layers
                              + S(2 alpha + B (halo(x) + halo(dL/dy)) delta beta)]        halo exchange
                     + (D/B) (p - 1) (alpha + B y delta beta / p)                         gather where the split ends
    memory           M(B/p, w)                                                            of split layers; others whole
    limit            p = pw ph (pd) <= min (W H (D))

How many first layers, and how p parts into pw, ph and pd, is chosen by time (space.py).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slicewise.graph.dims import SPACE
from slicewise.strategies.setting import Setting, Terms
from slicewise.strategies.space import best_depth, divided


def project(at: Setting) -> Iterator[Terms]:
    for found in divided(at, at.batch, at.devices):
        terms, inside = best_depth(at, found)
        statistics_s = at.statistics_s(np.where(inside, at.profile.statistics(SPACE), 0.0), at.devices)
        yield replace(terms, layerwise_s=terms.layerwise_s + statistics_s)
