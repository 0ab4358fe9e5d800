"""The one list of legal slicings: planner and runtime both ask here.

Every mesh axis slices a dim of the layer or nothing. Within a tier the order is canonical (N from the left, F and C
from the right, space between; queries lie with space, heads with F), so the same degrees always mean the same devices.
Linear layers and products take F and C in either order: what one sums over, the next may slice on the same devices.
Restricting the order and the number of different dims restricts the space; the certificate of a plan says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.errors import SlicingError
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.window import Window
from slicewise.partition.choices import CANONICAL, DIMS, Choices, axes_in
from slicewise.partition.halo import needed
from slicewise.partition.layout import Slicing
from slicewise.partition.parts import intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Which slicings a search considers."""

    dims_per_layer: int = 3
    dims_per_tier: int = 2
    reductions: bool = True  # whether input channels may be sliced
    uneven: bool = True  # whether parts of an output may differ in size

    def __str__(self) -> str:
        ordered = " (F and C of linear layers and products in either)" if self.reductions else ""
        return (
            f"every mesh axis to {'a dim' if self.reductions else 'an output dim'} or nothing, "
            f"canonical order{ordered}, at most {self.dims_per_layer} dims per layer and {self.dims_per_tier} per tier"
            f"{'' if self.uneven else ', equal parts'}"
        )


SPACES = {"full": Space(), "optcnn": Space(dims_per_layer=5, dims_per_tier=5, reductions=False, uneven=False)}


def sliceable_dims(layer: Layer) -> frozenset[Dim]:
    """The dims that a layer of this kind and these tensors can be sliced along at all."""
    letters = set("".join((*layer.input_dims, layer.dims, *(weight.dims for weight in layer.weights))))
    letters -= set("".join(weight.dims for weight in layer.weights if weight.shared))
    if layer.kind is Kind.FORK:
        letters.add(Dim.C)
    return frozenset(dim for dim in Dim if dim in letters)


def refusal(layer: Layer, slicing: Slicing, mesh: Mesh) -> str | None:
    """Why `slicing` is not legal for `layer`; None if it is."""
    if len(slicing) != len(mesh.axes):
        return f"{len(slicing)} axes given, the mesh has {len(mesh.axes)}"
    known = sliceable_dims(layer)
    for dim in dict.fromkeys(dim for dim in slicing if dim is not None):
        if dim not in known:
            choices = ", ".join(sorted(known)) or "nothing"
            return f"a {layer.kind} layer like this cannot be sliced along {dim}; it can along {choices}"
        sizes = tuple(size for size, sliced in zip(mesh.sizes, slicing, strict=True) if sliced is dim)
        reason = _refusal_of_parts(layer, dim, sizes)
        if reason:
            return reason
    return None


def _refusal_of_parts(layer: Layer, dim: Dim, sizes: tuple[int, ...]) -> str | None:
    """Slicing `dim` along axes of these sizes: which axes they are does not matter, nor what the others do."""
    degree = prod(sizes)
    for extent in layer.extents(dim):
        if _empty(extent, sizes):
            return f"cannot slice {dim}={extent} into {degree}: a part would be empty"
        if dim is Dim.N and layer.chunk is not None and _torn(extent, sizes, layer.chunk):
            return (
                f"cannot slice {dim}={extent} into {degree}: chunks of {layer.chunk} samples share local statistics; "
                f"a batch that divides by {layer.options['ranks']} can be sliced so"
            )
    if dim is Dim.F and layer.groups > 1 and layer.groups % degree:
        return f"{layer.groups} groups do not divide into {degree} parts"
    if layer.kind.has(Trait.REGROUPS) and dim not in layer.windows and _uneven(layer.extents(dim), degree):
        return f"{layer.input_shapes[0]} as {layer.shape} keeps {dim} parts together only where {degree} divides them"
    if dim in layer.windows:
        input_extent = layer.input_shapes[0][layer.input_dims[0].index(dim)]
        output_extent = layer.shape[layer.dims.index(dim)]
        if _reads_nothing(layer.windows[dim], input_extent, output_extent, sizes):
            return f"a part of {dim}={output_extent} in {degree} would read nothing but padding"
    return None


# Most layers of a network share their extents, and all of them the batch.
@lru_cache(maxsize=65536)
def _empty(extent: int, sizes: tuple[int, ...]) -> bool:
    """Whether some part of a dim holds nothing."""
    start, stop = intervals(extent, tuple(range(len(sizes))), _line(sizes))
    return bool(np.any(start >= stop))


@lru_cache(maxsize=65536)
def _torn(extent: int, sizes: tuple[int, ...], chunk: int) -> bool:
    """Whether some part ends inside of a chunk."""
    _, stop = intervals(extent, tuple(range(len(sizes))), _line(sizes))
    return bool(np.any((stop < extent) & (stop % chunk > 0)))


@lru_cache(maxsize=65536)
def _reads_nothing(window: Window, input_extent: int, output_extent: int, sizes: tuple[int, ...]) -> bool:
    """Whether some part of the output needs no position of the input."""
    start, stop = needed(window, input_extent, output_extent, tuple(range(len(sizes))), _line(sizes))
    return bool(np.any(start >= stop))


def _uneven(extents: list[int], degree: int) -> bool:
    """Whether a dim that has several sizes has one that does not divide: its parts would hold different items."""
    return len(set(extents)) > 1 and min(extents) % degree > 0


def check_legal(layer: Layer, slicing: Slicing, mesh: Mesh) -> None:
    reason = refusal(layer, slicing, mesh)
    if reason:
        raise SlicingError(f"{layer.name}: {reason}")


def check_ties(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> None:
    """Layers that share weights sum their gradients together: they must be sliced alike."""
    for tie in graph.ties:
        first, *others = (graph.layers[position].name for position in tie)
        for other in others:
            if slicings[other] != slicings[first]:
                raise SlicingError(f"{other} shares weights with {first} and must be sliced like it")


def contract(layer: Layer, mesh: Mesh) -> Slicing | None:
    """The one slicing that an input or output may have; None where the layer is free to choose.

    Where the batch divides over the devices, each rank feeds its own samples and gets their output, as under data
    parallelism. Any other batch is given whole to every rank, and comes out as it lies.
    """
    if layer.kind.has(Trait.EDGE) and all(n % mesh.devices == 0 for n in layer.extents(Dim.N) or [1]):
        return (Dim.N,) * len(mesh.axes)
    return (None,) * len(mesh.axes) if layer.kind is Kind.INPUT else None


def legal_slicings(layer: Layer, mesh: Mesh, space: Space = Space()) -> list[Slicing]:
    """Every legal slicing of `layer` in `space`; never empty, because slicing nothing is always legal."""
    choices = legal_choices(layer, mesh, space)
    return [choices[row] for row in range(len(choices))]


def legal_choices(
    layer: Layer,
    mesh: Mesh,
    space: Space = Space(),
    among: frozenset[Dim] = DIMS,
) -> Choices:
    """The same as an array; only those that slice nothing but `among`."""
    fixed = contract(layer, mesh)
    if fixed is not None:
        return Choices.of([fixed], mesh)
    dims = frozenset(dim for dim in sliceable_dims(layer) & among if space.reductions or dim in layer.dims)
    candidates = candidate_choices(dims, mesh, space, layer.kind.has(Trait.EITHER_ORDER))
    legal = np.ones(len(candidates), dtype=bool)
    if not space.uneven:
        for letter, extent in zip(layer.dims, layer.shape, strict=True):
            legal &= extent % candidates.degrees(Dim(letter)) == 0 if letter in DIMS else True
    for dim in dims:
        sizes, index = _ways(candidates, dim)
        allowed = [not given or _refusal_of_parts(layer, dim, given) is None for given in sizes]
        legal &= np.array(allowed)[index]
    return candidates.rows(np.flatnonzero(legal))


@lru_cache(maxsize=256)
def candidate_choices(dims: frozenset[Dim], mesh: Mesh, space: Space, either_order: bool = False) -> Choices:
    """Canonical slicings over `dims`, whatever the extents; with F and C within a tier in `either_order`."""
    return Choices.of(_candidates(dims, mesh, space, either_order), mesh)


@lru_cache(maxsize=256)
def _ways(candidates: Choices, dim: Dim) -> tuple[list[tuple[int, ...]], NDArray[np.int16]]:
    """The different sizes of axes that slice `dim`, and which of them each candidate has."""
    masks, by_mask = np.unique(candidates.axes_of([dim]), return_inverse=True)
    sizes = [tuple(candidates.mesh.sizes[axis] for axis in axes_in(int(mask))) for mask in masks]
    distinct = list(dict.fromkeys(sizes))
    return distinct, np.array([distinct.index(given) for given in sizes], dtype=np.int16)[by_mask]


@lru_cache(maxsize=4096)
def _line(sizes: tuple[int, ...]) -> Mesh:
    """A mesh of nothing but these axes."""
    return Mesh(tuple(Axis(f"axis{number}", size, 0) for number, size in enumerate(sizes)))


def _candidates(dims: frozenset[Dim], mesh: Mesh, space: Space, either_order: bool) -> Iterator[Slicing]:
    labels = [label for label in CANONICAL if label is None or label in dims]
    tiers = sorted({axis.tier for axis in mesh.axes})
    per_tier = []
    for tier in tiers:
        count = sum(axis.tier == tier for axis in mesh.axes)
        # labels are in canonical order, and so is every multiset that itertools draws from them
        choices = [
            choice
            for choice in combinations_with_replacement(labels, count)
            if len(set(choice) - {None}) <= space.dims_per_tier
        ]
        if either_order:
            choices += [_turned(choice) for choice in choices if {Dim.F, Dim.C} <= set(choice)]
        per_tier.append(choices)
    for parts in product(*per_tier):
        slicing = tuple(label for part in parts for label in part)
        if len(set(slicing) - {None}) <= space.dims_per_layer:
            yield slicing


def _turned(labels: Slicing) -> Slicing:
    """C before F."""
    first = labels.index(Dim.F)
    return (*labels[:first], *(dim for dim in (Dim.C, Dim.F) for _ in range(labels.count(dim))))
