"""Channel: every matrix product but the first is cut by input channel; all devices see all samples.

    compute          (D/p) S(FW + BW) + (D/(B p)) S(WU)
    communication    3 (D/B) (p - 1) S_{l<G}(alpha + B y delta beta / p)
                     reduction (twice a gather) of y forward, all-gather of dL/dx backward
    memory           M(B, w/p)
    limit            p <= min C

The first product reads the samples themselves, which have three channels or one: every device computes it whole, and
its C does not count for the limit.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.strategies.filter import cut_layers, handed_on, with_whole_gradients
from slicewise.strategies.setting import Setting, Terms


def project(at: Setting) -> Iterator[Terms]:
    p = at.devices
    cut = cut_layers(at) & (np.arange(len(at.profile.layers)) != at.profile.first_product)
    least = at.profile.least(Dim.C, among=cut)
    if least is None:
        raise InfeasibleError("channels: no layer behind the first has input channels to slice")
    if p > least[0]:
        raise InfeasibleError(f"channels: {least[1]} reads {least[0]}, too few for {p} devices")
    yield replace(
        with_whole_gradients(at, at.sharded("channel", cut, at.batch, p), p),
        layerwise_s=at.layerwise_s(at.batch * handed_on(at, cut_layers(at)), p),
        split=f"C{p}",
    )
