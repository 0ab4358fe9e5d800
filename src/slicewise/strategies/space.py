"""A group of devices that share space: which first layers, over which dims.

Layers are split from the first on; behind the last split layer the tensor is gathered, and every device of the group
computes the rest whole. All cuts of space into `parts` and all depths are tried at once.

    halo of a layer     2 (2 alpha + B (halo(x) + halo(dL/dy)) delta beta)       per dim that is cut
                        halo = floor(reach / 2) positions towards one neighbour, times the part's other extents
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.factors import divisors
from slicewise.graph.dims import SPACE, Dim
from slicewise.partition.choices import Floats
from slicewise.strategies.setting import Setting, Terms

Degrees = dict[Dim, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Arrays over depths: the first k layers are split, for every k that is possible."""

    degrees: Degrees
    depth: NDArray[np.int64]
    compute_s: Floats  # without weight update
    backward_s: Floats
    halo_s: Floats
    gather_s: Floats
    reduce_s: float  # gradients of all weights, in the group: however deep the split, as published
    memory_bytes: Floats


def divided(at: Setting, samples: int, parts: int) -> Iterator[Divided]:
    """`samples` on groups of `parts` devices, for every cut of space."""
    profile = at.profile
    layers = profile.layers
    dims = [dim for dim in SPACE if any(dim in layer.dims for layer in profile.graph.inputs)]
    if not dims or profile.first_product < 0:
        raise InfeasibleError(f"pixels: samples of {at.profile.graph.name} have no space to slice")
    whole, split = at.seconds(samples), at.cut_seconds("spatial", samples, parts)
    whole_bytes, split_bytes = at.layer_bytes(samples, 1.0), at.layer_bytes(samples / parts, 1.0)
    passing_bytes = _largest(at.passing_bytes(samples / parts), at.passing_bytes(samples))
    gathers = at.gather_s(samples * profile.alive, parts)
    reduce_s = at.all_reduce_s(at.all_weights, parts)
    any_depth = False
    for degrees in _factorisations(parts, dims):
        deepest = _deepest(at, degrees)
        depths = np.arange(profile.first_product + 1, deepest + 1)
        if not len(depths):
            continue
        any_depth = True
        kept = depths - 1
        halo_s = _halo_seconds(at, samples, degrees)
        yield Divided(
            degrees=degrees,
            depth=depths,
            compute_s=_split_first(split.both, whole.both)[kept],
            backward_s=_split_first(split.backward, whole.backward)[kept],
            halo_s=np.cumsum(halo_s)[kept],
            gather_s=gathers[kept],
            reduce_s=reduce_s,
            memory_bytes=(_split_first(split_bytes, whole_bytes) + passing_bytes)[kept],
        )
    if not any_depth:
        first = layers[profile.first_product]
        extents = "x".join(str(first.shape[first.dims.index(dim)]) for dim in dims if dim in first.dims)
        raise InfeasibleError(f"pixels: {first.name} writes {extents}, too few for {parts} devices")


def best_depth(at: Setting, found: Divided) -> tuple[Terms, NDArray[np.bool_]]:
    """The quickest depth that fits, or else the quickest; and which layers that splits."""
    total_s = found.compute_s + found.halo_s + found.gather_s
    capacity = at.profile.cluster.device.memory_bytes
    best = int(np.lexsort((total_s, found.memory_bytes > capacity))[0])
    depth = int(found.depth[best])
    update_s = float(at.update_s.sum())
    terms = Terms(
        compute_s=float(found.compute_s[best]) + update_s,
        update_s=update_s,
        backward_s=float(found.backward_s[best]),
        gradient_s=found.reduce_s,
        gradient_items=at.all_weights,
        layerwise_s=float(found.gather_s[best]),
        halo_s=float(found.halo_s[best]),
        memory_bytes=float(found.memory_bytes[best]),
        split=f"{_spelled(found.degrees)} to {at.profile.layers[depth - 1].name}",
    )
    return terms, np.arange(len(at.profile.layers)) < depth


def _spelled(degrees: Degrees) -> str:
    return " ".join(f"{dim.value}{degree}" for dim, degree in degrees.items() if degree > 1) or "whole"


def _split_first(split: Floats, whole: Floats) -> Floats:
    """By the last split layer: the sum if all up to it are split and the others whole."""
    total: Floats = np.cumsum(split) + whole.sum() - np.cumsum(whole)
    return total


def _largest(split: Floats, whole: Floats) -> Floats:
    """By the last split layer: the largest if all up to it are split and the others whole."""
    behind = np.append(np.maximum.accumulate(whole[::-1])[::-1][1:], 0.0)
    largest: Floats = np.maximum(np.maximum.accumulate(split), behind)
    return largest


def _factorisations(parts: int, dims: list[Dim]) -> Iterator[Degrees]:
    if len(dims) == 1:
        yield {dims[0]: parts}
        return
    for degree in divisors(parts):
        for rest in _factorisations(parts // degree, dims[1:]):
            yield {dims[0]: degree, **rest}


def _deepest(at: Setting, degrees: Degrees) -> int:
    """How many first layers have a position for every part along every dim that is cut."""
    extents = _extents(at)
    too_small = np.zeros(len(at.profile.layers), dtype=bool)
    for dim, degree in degrees.items():
        if degree > 1:
            too_small |= extents[dim] < degree
    return int(too_small.argmax()) if too_small.any() else len(too_small)


def _extents(at: Setting) -> dict[Dim, NDArray[np.int64]]:
    """Per dim and layer, the smallest extent among what it reads and writes; 0 where the output lacks the dim."""
    return at.profile.remembered(
        "extents",
        lambda: {
            dim: np.array([min(layer.extents(dim)) if dim in layer.dims else 0 for layer in at.profile.layers])
            for dim in SPACE
        },
    )


def halo_items(at: Setting) -> dict[Dim, Floats]:
    """Per dim and layer, halo(x) + halo(dL/dy) towards one neighbour, over the whole extents of other dims."""

    def count() -> dict[Dim, Floats]:
        found = {dim: np.zeros(len(at.profile.layers)) for dim in SPACE}
        for position, layer in enumerate(at.profile.layers):
            for dim, window in layer.windows.items():
                if dim in layer.dims and dim in layer.input_dims[0]:
                    read = layer.input_shapes[0]
                    x = float(np.prod(read)) / read[layer.input_dims[0].index(dim)]
                    y = float(np.prod(layer.shape)) / layer.shape[layer.dims.index(dim)]
                    reached = window.reach // 2 * (x + y) if window.reach > window.stride else 0.0
                    # a roll hands on as many rows as it moves, to one side
                    found[dim][position] = abs(window.padding) * (x + y) / 2 if window.wraps else reached
        return found

    return at.profile.remembered("halos", count)


def _halo_seconds(at: Setting, samples: int, degrees: Degrees) -> Floats:
    parts = int(np.prod(list(degrees.values())))
    total = np.zeros(len(at.profile.layers))
    stride = parts
    for dim, degree in degrees.items():  # the last dim varies fastest over the ranks
        stride //= degree
        if degree == 1:
            continue
        line = at.links.neighbour(degree, stride)
        latency_s = at.tuning.halo_latency_s if at.tuning.halo_latency_s is not None else line.latency_s
        items = halo_items(at)[dim]
        message = samples * items * degree / parts * at.item_bytes
        total += np.where(items > 0, 2 * (2 * latency_s + message * line.s_per_byte), 0.0)
    return total
