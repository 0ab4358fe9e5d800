"""A link's latency and rate from how long messages took.

Sizes weigh alike. Links that are shaped let short bursts through at full speed:

    seconds |               *    large messages travel at the rate that was paid for
            |          *
            | * * *              a burst: sizes like these would promise a rate that nothing large has

Where the largest message took much longer than the line says, sizes that went as a burst are left out, smallest first.
The very smallest stays: it tells the latency.
"""

from collections.abc import Sequence

import numpy as np

from slicewise.cluster.cluster import Link

_BENT = 1.1  # times what the line says of the largest message
_SHORTEST_S, _LEAST_S_PER_BYTE = 1e-7, 1e-13


def fitted_link(moved_bytes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Of messages from the smallest to the largest."""
    sizes, measured = list(moved_bytes), list(seconds)
    while True:
        latency_s, s_per_byte = _line(sizes, measured)
        if len(sizes) == 2 or measured[-1] <= _BENT * (latency_s + s_per_byte * sizes[-1]):
            return Link(max(latency_s, _SHORTEST_S), 1 / max(s_per_byte, _LEAST_S_PER_BYTE))
        del sizes[1], measured[1]


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    design = np.stack([np.ones(len(sizes)), np.array(sizes)], axis=1) / np.array(seconds)[:, None]
    latency_s, s_per_byte = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)[0]
    return float(latency_s), float(s_per_byte)
