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
    gathered_at = np.arange(len(profile.layers)) >= first
    by_filter = gathered_at & ~profile.repeated
    check_filters(at, by_filter, p)
    samples = parts(at.batch, p)
    few, thin, whole = at.seconds(samples), at.cut_seconds("filter", at.batch, p), at.seconds(at.batch)
    where = [by_filter, gathered_at]
    both = np.select(where, [thin.both, whole.both], few.both)
    held = np.where(by_filter, 1 / p, 1.0)
    exchanged = float(profile.w[:first].sum())
    update_s = float((at.update_s * held).sum())
    read = float(at.batch * profile.x[first] * at.item_bytes)
    yield Terms(
        compute_s=float(both.sum()) + update_s,
        update_s=update_s,
        backward_s=float(np.select(where, [thin.backward, whole.backward], few.backward).sum()),
        gradient_s=at.all_reduce_s(exchanged, p),
        gradient_items=exchanged,
        layerwise_s=2 * at.links.ring(Op.ALL_GATHER, p).seconds(read)
        + at.layerwise_s(at.batch * gathered(at, by_filter), p)
        + at.statistics_s(np.where(gathered_at, 0.0, profile.statistics([Dim.N])), p),
        memory_bytes=at.memory_bytes(np.where(gathered_at, at.batch, samples), held),
        split=f"N{p} F{p}",
    )
