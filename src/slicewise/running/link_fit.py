"""A link's latency and rate from how long messages took.

Sizes weigh alike. Links that are shaped let short bursts through at full speed:

    seconds |               *    large messages travel at the rate that was paid for
            |          *
            | * * *              a burst: sizes like these would promise a rate that nothing large has

Where the largest message took much longer than the line says, sizes that went as a burst are left out, smallest first.
The very smallest stays: it tells the latency. Whether a size goes as a burst depends on what was sent before it, which
no line can say: so how large bursts are is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.cluster.cluster import Link

_BENT = 1.1  # times what the line says of the largest message
_QUICKER = 2.0  # times: a cache makes a message a little quicker than the line, a burst much
_SHORTEST_S, _LEAST_S_PER_BYTE = 1e-7, 1e-13


@dataclass(frozen=True, slots=True)
class FittedLink:
    link: Link
    burst_bytes: float = 0.0  # the most bytes that went much quicker than the link's rate


def fitted_link(moved_bytes: Sequence[float], seconds: Sequence[float]) -> FittedLink:
    """Of messages from the smallest to the largest."""
    sizes, measured = list(moved_bytes), list(seconds)
    while True:
        latency_s, s_per_byte = _line(sizes, measured)
        if len(sizes) == 2 or measured[-1] <= _BENT * (latency_s + s_per_byte * sizes[-1]):
            break
        del sizes[1], measured[1]
    link = Link(max(latency_s, _SHORTEST_S), 1 / max(s_per_byte, _LEAST_S_PER_BYTE))
    quick = [
        size for size, taken in zip(moved_bytes, seconds, strict=True) if size > _QUICKER * taken * link.bytes_per_s
    ]
    return FittedLink(link, max(quick, default=0.0))


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    design = np.stack([np.ones(len(sizes)), np.array(sizes)], axis=1) / np.array(seconds)[:, None]
    latency_s, s_per_byte = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)[0]
    return float(latency_s), float(s_per_byte)
