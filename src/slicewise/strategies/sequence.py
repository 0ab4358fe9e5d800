"""Sequence: all devices share every sample's tokens; attention gathers keys and values.

    compute          (D/p) S(FW + BW) + (D/B) S(WU)                                   of layers of tokens; others whole
    communication    2 (D/B) (p - 1) (alpha + S(w) delta beta / p)                    gradients of layers of tokens
                     + 2 (D/B) (p - 1) S(alpha + B (k + v) delta beta / p)            keys, values, their gradients
                     + (D/B) (p - 1) S(alpha + B y delta beta / p)                    gathers where tokens end
                     + 2 (D/B) S(2 alpha + B (halo(x) + halo(dL/dy)) delta beta)      halos, where windows overlap
    memory           M(B/p, w) + B S(k + v) delta (1 - 1/p)                           of layers of tokens; others whole
    limit            p <= min tokens

Tokens are the outermost dim of space: rows of an image, of windows, or of its patches in a sequence. Attention without
space is cut by query: what it reads besides, k and v, is gathered forward, and its gradient reduced to shards backward.
Windows that are cut by rows have their keys at hand. A layer with fewer positions than devices is computed whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Floats
from slicewise.partition.tokens import has_tokens, token_dim
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Setting, Terms
from slicewise.strategies.space import halo_items


def project(at: Setting) -> Iterator[Terms]:
    yield shared_tokens(at, at.batch, at.devices)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Of every layer: what a cut by token does to it, per sample."""

    extents: NDArray[np.int64]  # tokens; 0 where there are none
    gathered: Floats  # items of k and v
    attention: NDArray[np.bool_]
    dims: tuple[Dim | None, ...]


def shared_tokens(at: Setting, samples: int, parts: int) -> Terms:
    """`samples` on a group of `parts` devices."""
    profile, found = at.profile, _tokens(at.profile)
    least = least_tokens(profile)
    if least is None:
        raise InfeasibleError(f"tokens: {profile.graph.name} has no attention, so no tokens to share")
    if least[0] < parts:
        raise InfeasibleError(f"tokens: {least[1]} has {least[0]}, too few for {parts} devices")
    cut = found.extents >= parts
    whole, part = at.seconds(samples), at.cut_seconds("sequence", samples, parts)
    update_s = float(at.update_s.sum())
    gathered = samples * np.where(cut, found.gathered, 0.0)
    own = np.where(cut, samples / parts, float(samples))
    kept_bytes = at.tuning.memory_reuse * at.item_bytes * float(gathered.sum()) * (1 - 1 / parts)
    exchanged = float(profile.w[cut].sum())
    statistics_s = at.statistics_s(np.where(cut, profile.statistics((*SPACE, Dim.Q)), 0.0), parts)
    return Terms(
        compute_s=float(np.where(cut, part.both, whole.both).sum()) + update_s,
        update_s=update_s,
        backward_s=float(np.where(cut, part.backward, whole.backward).sum()),
        gradient_s=at.all_reduce_s(exchanged, parts),
        gradient_items=exchanged,
        layerwise_s=2 * float(at.gather_s(gathered, parts).sum())
        + float(at.gather_s(samples * _handed_on(profile, cut), parts).sum())
        + statistics_s,
        halo_s=_halo_s(at, samples, parts, cut, found.dims),
        memory_bytes=at.memory_bytes(own, 1.0) + kept_bytes,
        split=f"tokens {parts}",
    )


def least_tokens(profile: Profile) -> tuple[int, str] | None:
    """The fewest tokens of an attention layer, and whose they are."""
    found = _tokens(profile)
    among = np.flatnonzero(found.attention)
    if not len(among):
        return None
    least = int(among[found.extents[among].argmin()])
    return int(found.extents[least]), profile.layers[least].name


def _tokens(profile: Profile) -> _Tokens:
    def found() -> _Tokens:
        dims = tuple(token_dim(layer) for layer in profile.layers)
        pairs = list(zip(profile.layers, dims, strict=True))
        return _Tokens(
            np.array([min(layer.extents(dim)) if dim else 0 for layer, dim in pairs]),
            np.array([_foreign(layer, dim) for layer, dim in pairs]),
            np.array([has_tokens(layer) for layer in profile.layers]),
            dims,
        )

    return profile.remembered("tokens", found)


def _foreign(layer: Layer, dim: Dim | None) -> float:
    """Items of one sample that a product reads without the dim that is cut."""
    if dim is None or not layer.kind.has(Trait.PRODUCT):
        return 0.0
    reads = zip(layer.input_dims, layer.input_shapes, strict=True)
    return float(sum(np.prod(shape) for dims, shape in reads if Dim.N in dims and dim not in dims))


def _handed_on(profile: Profile, cut: NDArray[np.bool_]) -> Floats:
    """Items of one sample that layers of tokens hand to whole layers."""
    index = profile.graph.index
    ends = np.zeros(len(cut), dtype=bool)
    for position, layer in enumerate(profile.layers):
        if not cut[position] and layer.kind is not Kind.OUTPUT:
            ends[[index[source] for source in layer.inputs]] = True
    return np.where(ends & cut, profile.y, 0.0)


def _halo_s(at: Setting, samples: int, parts: int, cut: NDArray[np.bool_], dims: tuple[Dim | None, ...]) -> float:
    line = at.links.neighbour(parts)
    latency_s = at.tuning.halo_latency_s if at.tuning.halo_latency_s is not None else line.latency_s
    by_dim = halo_items(at)
    items = np.array([by_dim[dim][place] if dim in by_dim else 0.0 for place, dim in enumerate(dims)])
    sent = samples * items[cut & (items > 0)] * at.item_bytes
    return float((2 * (2 * latency_s + sent * line.s_per_byte)).sum())
