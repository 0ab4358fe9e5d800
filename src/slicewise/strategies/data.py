"""Data: every device has all weights and a share of the samples.

    compute          (D/p) S(FW + BW) + (D/B) S(WU)
    communication    2 (D/B) (p - 1) (alpha + S(w) delta beta / p)        the all-reduce of gradients
    memory           M(B/p, w)
    limit            p <= B

Exact batch norms add their statistics, gathered and summed over all devices; the published form has none.
"""

from collections.abc import Iterator

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.strategies.setting import Setting, Terms, parts


def project(at: Setting) -> Iterator[Terms]:
    p = at.devices
    if p > at.batch:
        raise InfeasibleError(f"samples: a batch of {at.batch} does not reach {p} devices")
    samples = parts(at.batch, p)
    seconds = at.seconds(samples)
    update_s = float(at.update_s.sum())
    yield Terms(
        compute_s=float(seconds.both.sum()) + update_s,
        update_s=update_s,
        backward_s=float(seconds.backward.sum()),
        gradient_s=at.all_reduce_s(at.all_weights, p),
        gradient_items=at.all_weights,
        layerwise_s=at.statistics_s(at.profile.statistics([Dim.N]), p),
        memory_bytes=at.memory_bytes(samples, 1.0),
        split=f"N{p}",
    )
