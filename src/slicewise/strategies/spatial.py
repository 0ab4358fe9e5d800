"""Spatial: all devices share every sample's space, over the first layers.

    compute          (D/p) S(FW + BW) + (D/B) S(WU)                                       of split layers; others whole
    communication    2 (D/B) [(p - 1) (alpha + S(w) delta beta / p)                       gradients of split layers
                              + S(2 alpha + B (halo(x) + halo(dL/dy)) delta beta)]        halo exchange
                     + (D/B) (p - 1) (alpha + B y delta beta / p)                         gather where the split ends
    memory           2 delta S(B (x + y) / p + w)                                         of split layers; others whole
    limit            p = pw ph (pd) <= min (W H (D))

How many first layers, and how p parts into pw, ph and pd, is chosen by time (space.py).
"""

from collections.abc import Iterator

import numpy as np

from slicewise.graph.dims import SPACE
from slicewise.strategies.setting import Setting, Terms
from slicewise.strategies.space import divided, spelled


def project(at: Setting) -> Iterator[Terms]:
    update_s = float(at.update_s.sum())
    capacity = at.profile.cluster.device.memory_bytes
    for found in divided(at, at.batch, at.devices):
        total_s = found.compute_s + found.halo_s + found.gather_s + found.reduce_s
        best = int(np.lexsort((total_s, found.memory_bytes > capacity))[0])
        depth = int(found.depth[best])
        inside = np.arange(len(at.profile.layers)) < depth
        yield Terms(
            compute_s=float(found.compute_s[best]) + update_s,
            update_s=update_s,
            backward_s=float(found.backward_s[best]),
            gradient_s=float(found.reduce_s[best]),
            layerwise_s=float(found.gather_s[best])
            + at.statistics_s(np.where(inside, at.profile.statistics(SPACE), 0.0), at.devices),
            halo_s=float(found.halo_s[best]),
            memory_bytes=float(found.memory_bytes[best]),
            split=f"{spelled(found.degrees)} to {at.profile.layers[depth - 1].name}",
        )
