"""One weird trick: data up to the first linear layer, filter from there on.

    compute          (D/p) S(FW + BW) + (D/B) S_conv(WU) + (D/(B p)) S_linear(WU)
    communication    2 (D/B) (p - 1) (alpha + S_conv(w) delta beta / p)               gradients
                     + 2 (D/B) (p - 1) (alpha + B x delta beta / p)                   x, dL/dx of the first linear layer
                     + 3 (D/B) (p - 1) S_{linear, l<G}(alpha + B y delta beta / p)
    memory           M_conv(B/p, w) + M_linear(B, w/p)
    limit            p <= B, p <= min F of the linear layers

Not one of the closed forms' own: it is data and filter put together where the samples are gathered.
"""

from collections.abc import Iterator

import numpy as np

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.partition.steps import Op
from slicewise.strategies.filter import check_filters, gathered
from slicewise.strategies.setting import Setting, Terms, parts


def project(at: Setting) -> Iterator[Terms]:
    p, profile = at.devices, at.profile
    first = profile.first_linear
    if first is None:
        raise InfeasibleError("layers: the network has no linear layer")
    if p > at.batch:
        raise InfeasibleError(f"samples: a batch of {at.batch} does not reach {p} devices")
    by_filter = np.arange(len(profile.layers)) >= first
    check_filters(at, by_filter, p)
    samples = parts(at.batch, p)
    few, thin = at.seconds(samples), at.cut_seconds("filter", at.batch, p)
    both = np.where(by_filter, thin.both, few.both)
    held = np.where(by_filter, 1 / p, 1.0)
    update_s = float((at.update_s * held).sum())
    read = float(at.batch * profile.x[first] * at.item_bytes)
    yield Terms(
        compute_s=float(both.sum()) + update_s,
        update_s=update_s,
        backward_s=float(np.where(by_filter, thin.backward, few.backward).sum()),
        gradient_s=at.all_reduce_s(float(profile.w[:first].sum()), p),
        layerwise_s=2 * at.links.ring(Op.ALL_GATHER, p).seconds(read)
        + at.layerwise_s(at.batch * gathered(at, by_filter), p)
        + at.statistics_s(np.where(by_filter, 0.0, profile.statistics([Dim.N])), p),
        memory_bytes=at.memory_bytes(np.where(by_filter, at.batch, samples), held),
        split=f"N{p} F{p}",
    )
