"""Filter: every matrix product is cut by output channel; all devices see all samples.

    compute          (D/p) S(FW + BW) + (D/(B p)) S(WU)
    communication    3 (D/B) (p - 1) S_{l<G}(alpha + B y delta beta / p)
                     all-gather of y forward, reduction (twice a gather) of dL/dx backward
    memory           M(B, w/p)
    limit            p <= min F

G counts the matrix products: what stands between them follows their cut. The filters of attention are its heads:
queries, keys and values that the same device computed are not gathered. Compute is 1/p of the whole layer's only where
no shard efficiency was fitted: `Tuning.fixed_compute["filter"]` is the share that stays.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Floats
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Setting, Terms


def project(at: Setting) -> Iterator[Terms]:
    p = at.devices
    cut = cut_layers(at)
    check_filters(at, cut, p)
    yield replace(
        with_whole_gradients(at, at.sharded("filter", cut, at.batch, p), p),
        layerwise_s=at.layerwise_s(at.batch * gathered(at, cut), p),
        split=f"F{p}",
    )


def gathered(at: Setting, cut: NDArray[np.bool_]) -> Floats:
    """Items per sample that every product that is cut, but the last, hands on whole: not to the heads of attention."""
    return np.where(_by_head(at.profile), 0.0, handed_on(at, cut))


def handed_on(at: Setting, cut: NDArray[np.bool_]) -> Floats:
    """Items per sample that every product that is cut, but the last, hands on."""
    profile = at.profile
    behind = np.arange(len(profile.y)) < profile.last_product
    return np.where(profile.products & cut & behind, profile.y, 0.0)


def _by_head(profile: Profile) -> NDArray[np.bool_]:
    """Products whose channels become heads on their way to attention, and are read by nothing else."""

    def kept(source: Layer, place: int) -> bool:
        reading = [(layer, slot) for layer in readers.get(source.name, []) for slot in _slots(layer, source.name)]
        return bool(reading) and all(goes_on(layer, slot, place) for layer, slot in reading)

    def goes_on(layer: Layer, slot: int, place: int) -> bool:
        letter = layer.input_dims[slot][place]
        if layer.kind is Kind.ATTENTION:
            return letter == Dim.A
        free = layer.kind.has(Trait.FREE) and not layer.kind.has(Trait.EDGE)
        return free and letter == Dim.F and Dim.F in layer.dims and kept(layer, layer.dims.index(Dim.F))

    def found() -> NDArray[np.bool_]:
        return np.array(
            [
                layer.kind.has(Trait.PRODUCT) and Dim.F in layer.dims and kept(layer, layer.dims.index(Dim.F))
                for layer in profile.layers
            ]
        )

    readers: dict[str, list[Layer]] = {}
    for layer in profile.layers:
        for source in dict.fromkeys(layer.inputs):
            readers.setdefault(source, []).append(layer)
    return profile.remembered("by head", found)


def _slots(layer: Layer, source: str) -> list[int]:
    return [slot for slot, name in enumerate(layer.inputs) if name == source]


def cut_layers(at: Setting) -> NDArray[np.bool_]:
    """All that can be, or all but linear ones where a framework leaves those whole."""
    able: NDArray[np.bool_] = ~at.profile.repeated
    return able if at.tuning.split_linear else able & ~at.profile.linear


def with_whole_gradients(at: Setting, terms: Terms, parts: int) -> Terms:
    """Linear layers that a framework leaves whole have their gradients all-reduced like any others."""
    items = 0.0 if at.tuning.split_linear else float(at.profile.w[at.profile.linear].sum())
    return replace(terms, gradient_s=at.all_reduce_s(items, parts, staged=True), gradient_items=items)


def check_filters(at: Setting, cut: NDArray[np.bool_], parts: int) -> None:
    least = at.profile.least(Dim.F, among=cut)
    if least is None:
        raise InfeasibleError("filters: no layer has filters to slice")
    if parts > least[0]:
        raise InfeasibleError(f"filters: {least[1]} has {least[0]}, too few for {parts} devices")
    heads = at.profile.least_heads(among=cut)
    if heads is not None and parts > heads[0]:
        raise InfeasibleError(f"heads: {heads[1]} has {heads[0]}, too few for {parts} devices")
