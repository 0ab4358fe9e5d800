"""How a slicing cuts each tensor of a layer: parts, who holds them, borders that are borrowed, sums that are parted."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.halo import halo
from slicewise.partition.layout import Layout, Shard, Slicing, layouts, partial_axes
from slicewise.partition.parts import Box, as_boxes, boxes

Place = tuple[int, ...]  # a part's number along each dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One tensor of a layer under a slicing."""

    name: str  # x, w or y; of attention q, "k, v" and y
    letters: str
    shape: tuple[int, ...]
    parts: Mapping[str, int]  # letter -> into how many
    held: Mapping[Place, tuple[Box, tuple[int, ...]]]  # part -> where it lies, the ranks that hold it
    borrowed: Mapping[str, int]  # letter -> positions that a part reads of its neighbours, at most
    summands: int = 1  # devices whose values must be added up

    @property
    def copies(self) -> int:
        """Devices that hold the same part, whole."""
        return len(next(iter(self.held.values()))[1]) // self.summands


def cuts_of(layer: Layer, slicing: Slicing, mesh: Mesh) -> list[Cut]:
    """What it reads (x, and others that are computed), its largest weight (w), and what it writes (y)."""
    placed = layouts(layer, slicing)
    found = []
    for slot, (letters, shape) in enumerate(zip(layer.input_dims, layer.input_shapes, strict=True)):
        if slot < 2:
            borrowed = _borrowed(layer, slicing, mesh) if slot == 0 else {}
            name = _name(layer, slot)
            found.append(_cut(name, letters, shape, placed.inputs[slot], mesh, borrowed))
    if layer.weights:
        largest = max(range(len(layer.weights)), key=lambda at: layer.weights[at].size)
        weight = layer.weights[largest]
        found.append(_cut("w", weight.dims, weight.shape, placed.weights[largest], mesh, {}))
    return [*found, _cut("y", layer.dims, layer.shape, placed.output, mesh, {})]


def _name(layer: Layer, slot: int) -> str:
    """Values of attention are cut as its keys are."""
    if layer.kind is Kind.ATTENTION:
        return ("q", "k, v")[slot]
    return "x" if len(layer.inputs) == 1 else f"x{slot + 1}"


def _cut(
    name: str, letters: str, shape: tuple[int, ...], layout: Layout, mesh: Mesh, borrowed: Mapping[str, int]
) -> Cut:
    bounds = boxes(shape, layout, mesh)
    numbers = np.stack([np.unique(column, return_inverse=True)[1] for column in bounds[0].T], axis=1)
    held: dict[Place, tuple[Box, tuple[int, ...]]] = {}
    for rank, (row, box) in enumerate(zip(numbers.tolist(), as_boxes(bounds), strict=True)):
        _, ranks = held.get(tuple(row), (box, ()))
        held[tuple(row)] = (box, (*ranks, rank))
    parts = {
        letters[dim]: prod(mesh.sizes[axis] for axis, at in enumerate(layout) if at == Shard(dim))
        for dim in range(len(letters))
        if letters[dim].isupper()
    }
    summands = mesh.group_size(partial_axes(layout))
    return Cut(name=name, letters=letters, shape=shape, parts=parts, held=held, borrowed=borrowed, summands=summands)


def _borrowed(layer: Layer, slicing: Slicing, mesh: Mesh) -> dict[str, int]:
    needs = halo(layer, slicing, mesh)
    if needs is None:
        return {}
    own_start, own_stop = boxes(layer.input_shapes[0], layouts(layer, slicing).inputs[0], mesh)
    widest = np.maximum(own_start - needs.start, needs.stop - own_stop).max(axis=0)
    return {letter: int(width) for letter, width in zip(layer.input_dims[0], widest, strict=True) if width > 0}
