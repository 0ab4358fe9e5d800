"""Many slicings of one layer at once: one row each, one column per mesh axis.

Planning looks at thousands of slicings per layer, so everything about them is an array over the rows. A set of mesh
axes is a bit mask: axis k is bit k, so the outermost axes are the lowest bits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Within a tier, axes are labelled in this order: the same degrees always mean the same devices.
# Queries lie as the tokens that they come from, heads as the channels.
CANONICAL: tuple[Dim | None, ...] = (
    Dim.N, Dim.D, Dim.H, Dim.W, Dim.Q, Dim.K, None, Dim.A, Dim.F, Dim.C
)  # fmt: skip
DIMS = frozenset(Dim)  # a letter is one of these or never sliced
_CODES = {label: code for code, label in enumerate(CANONICAL)}
_DIGIT_BITS = 4  # of an axis in a key: there are fewer than 16 labels, and a tensor has fewer dims


def _spread(axes: int) -> Ints:
    """By mask: bit k moved to bit 4k, so that every axis has room for a digit of its own."""
    spread = np.zeros(1, dtype=np.int64)
    for axis in range(axes):
        spread = np.concatenate([spread, spread + (1 << _DIGIT_BITS * axis)])
    return spread


_SPREAD = _spread(16)  # 65,536 devices if all axes are of size 2
_PARTIAL_DIGIT = 15  # the dims of a tensor are 1, 2, ...: there are fewer


@dataclass(frozen=True, eq=False)
class Choices:
    """`labels[row, axis]` is a position in CANONICAL."""

    labels: NDArray[np.int8]
    mesh: Mesh
    among: "tuple[Choices, Ints] | None" = None  # the list that these rows were taken from, and which of them

    @classmethod
    def of(cls, slicings: Iterable[Slicing], mesh: Mesh) -> "Choices":
        codes = [[_CODES[dim] for dim in slicing] for slicing in slicings]
        return cls(np.array(codes, dtype=np.int8).reshape(len(codes), len(mesh.axes)), mesh)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> Slicing:
        return tuple(CANONICAL[code] for code in self.labels[row])

    def rows(self, kept: Ints) -> "Choices":
        """These rows; what is known about all rows is known about them."""
        whole, mine = self.among or (self, None)
        return Choices(self.labels[kept], self.mesh, (whole, kept if mine is None else mine[kept]))

    def including(self, slicings: Iterable[Slicing]) -> "Choices":
        """With `slicings` appended where they are missing."""
        extra = Choices.of(dict.fromkeys(slicings), self.mesh)
        new = np.flatnonzero(~np.isin(extra.keys, self.keys))
        return Choices(np.concatenate([self.labels, extra.labels[new]]), self.mesh) if len(new) else self

    def find(self, slicing: Slicing) -> int | None:
        """The row of a slicing, if it is here."""
        rows = np.flatnonzero(self.keys == Choices.of([slicing], self.mesh).keys)
        return int(rows[0]) if len(rows) else None

    @cached_property
    def keys(self) -> Ints:
        """One number per row, equal where slicings are: a digit of four bits per axis."""
        if self.among is not None:
            whole, kept = self.among
            return whole.keys[kept]
        return self.labels @ (1 << _DIGIT_BITS * np.arange(self.labels.shape[1], dtype=np.int64))

    @cached_property
    def _axes_by_label(self) -> Ints:
        """[label, row] -> the axes that carry the label."""
        if self.among is not None:
            whole, kept = self.among
            return whole._axes_by_label[:, kept]
        bits = 1 << np.arange(self.labels.shape[1], dtype=np.int64)
        return np.stack([(self.labels == code) @ bits for code in range(len(CANONICAL))])

    def axes_of(self, dims: Iterable[Dim]) -> Ints:
        """Per row, the axes that slice any of `dims`, as a mask."""
        codes = [_CODES[dim] for dim in dims]
        masks: Ints = self._axes_by_label[codes[0]] if len(codes) == 1 else self._axes_by_label[codes].sum(axis=0)
        return masks

    def layouts(self, dims: str, *, partial: bool) -> "Layouts":
        """Of a tensor with these letters; axes that slice a dim it lacks leave it `partial` or replicated."""
        if (dims, partial) not in self._layouts and self.among is not None:
            whole, kept = self.among
            self._layouts[dims, partial] = whole.layouts(dims, partial=partial).rows(kept)
        if (dims, partial) not in self._layouts:
            sharded = [self.axes_of([Dim(letter)] if letter in DIMS else []) for letter in dims]
            by_dim = np.array(sharded, dtype=np.int64).reshape(len(dims), len(self)).T
            absent = [dim for dim in Dim if dim not in dims] if partial else []
            self._layouts[dims, partial] = Layouts(by_dim, self.axes_of(absent))
        return self._layouts[dims, partial]

    @cached_property
    def _layouts(self) -> dict[tuple[str, bool], "Layouts"]:
        return {}

    def degrees(self, dim: Dim) -> Ints:
        """Per row, into how many parts `dim` goes."""
        return group_sizes(self.axes_of([dim]), self.mesh)


@dataclass(frozen=True, eq=False)
class Layouts:
    """Layouts of one tensor as masks, one row each: which axes shard each dim, along which axes it is partial."""

    by_dim: Ints  # [row, tensor dim]
    partial: Ints
    among: "tuple[Layouts, Ints] | None" = None  # the list that these rows were taken from, and which of them

    def __len__(self) -> int:
        return len(self.partial)

    def rows(self, kept: Ints) -> "Layouts":
        whole, mine = self.among or (self, None)
        return Layouts(self.by_dim[kept], self.partial[kept], (whole, kept if mine is None else mine[kept]))

    @cached_property
    def keys(self) -> Ints:
        """One number per row, equal where layouts are: per axis, which dim it shards."""
        if self.among is not None:
            whole, kept = self.among
            return whole.keys[kept]
        return self._keys(range(self.by_dim.shape[1])) + _PARTIAL_DIGIT * _SPREAD[self.partial]

    @cached_property
    def distinct(self) -> tuple["Layouts", Ints | None]:
        """Each layout once, and which of them every row has; None where no two rows are alike."""
        _, first, index = np.unique(self.keys, return_index=True, return_inverse=True)
        return (self, None) if len(first) == len(self) else (self.rows(first), index)

    def _keys(self, dims: Iterable[int]) -> Ints:
        """One number per row, equal where the axes of these dims are."""
        keys = np.zeros(len(self), dtype=np.int64)
        for dim in dims:
            keys += (dim + 1) * _SPREAD[self.by_dim[:, dim]]
        return keys

    @cached_property
    def columns(self) -> list[tuple[Ints, Ints]]:
        """Per tensor dim, the masks that occur in the whole list, and which of them every row has."""
        if self.among is not None:
            whole, kept = self.among
            return [(masks, index[kept]) for masks, index in whole.columns]
        return [np.unique(column, return_inverse=True) for column in self.by_dim.T]

    @cached_property
    def halves(self) -> list["Half"]:
        """Samples and channels, then space."""
        if self.among is not None:
            whole, kept = self.among
            return [half.rows(whole.columns, kept) for half in whole.halves]
        halves = []
        for dims in (range(min(2, self.by_dim.shape[1])), range(2, self.by_dim.shape[1])):
            if dims:
                _, first, index = np.unique(self._keys(dims), return_index=True, return_inverse=True)
                columns = [(dim, self.columns[dim][0], self.columns[dim][1][first]) for dim in dims]
                halves.append(Half(columns, index))
        return halves

    def cut_to(self, axes: int) -> "Layouts":
        """The same with only these axes: what devices that differ along the others hold together."""
        if axes not in self._cuts and self.among is not None:
            whole, kept = self.among
            self._cuts[axes] = whole.cut_to(axes).rows(kept)
        if axes not in self._cuts:
            self._cuts[axes] = Layouts(self.by_dim & axes, self.partial & axes)
        return self._cuts[axes]

    @cached_property
    def _cuts(self) -> dict[int, "Layouts"]:
        return {}

    @cached_property
    def sharded(self) -> Ints:
        """The axes that shard any dim."""
        masks: Ints = self.by_dim.sum(axis=1)  # no two dims share an axis
        return masks


@dataclass(frozen=True, slots=True)
class Half:
    """Some dims of many layouts: the masks that occur together, listed once."""

    columns: list[tuple[int, Ints, Ints]]  # dim, its masks, and which of them each entry of the list has
    index: Ints  # each row's entry

    def rows(self, columns: list[tuple[Ints, Ints]], kept: Ints) -> "Half":
        """Of these rows; where there are fewer of them than entries, every row is its own entry."""
        if len(kept) >= len(self.columns[0][2]):
            return Half(self.columns, self.index[kept])
        return Half([(dim, masks, columns[dim][1][kept]) for dim, masks, _ in self.columns], np.arange(len(kept)))


@dataclass(frozen=True, eq=False)
class Port:
    """One end of an edge: the tensor's layout in forward and its gradient's in backward."""

    value: Layouts
    gradient: Layouts


def input_port(layer: Layer, slot: int, choices: Choices) -> Port:
    """What a consumer wants, and the gradient it returns."""
    dims = layer.input_dims[slot]
    return Port(choices.layouts(dims, partial=False), choices.layouts(dims, partial=True))


def output_port(layer: Layer, choices: Choices) -> Port:
    """What a producer gives, and the gradient it wants. A fork passes on partial gradients, see layout.layouts."""
    fork = layer.kind is Kind.FORK
    return Port(choices.layouts(layer.dims, partial=not fork), choices.layouts(layer.dims, partial=fork))


def axes_in(mask: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)


def mask_of(axes: Sequence[int]) -> int:
    return sum(1 << axis for axis in axes)


def outer_masks(mesh: Mesh, tiers: int) -> list[int]:
    """Per tier, the axes of that tier and those around it."""
    return [mask_of([number for number, axis in enumerate(mesh.axes) if axis.tier <= tier]) for tier in range(tiers)]


def group_sizes(masks: Ints, mesh: Mesh) -> Ints:
    """Per mask, the number of devices that differ along its axes."""
    return _sizes_by_mask(mesh)[masks]


@lru_cache(maxsize=64)
def _sizes_by_mask(mesh: Mesh) -> Ints:
    sizes = np.ones(1, dtype=np.int64)
    for size in mesh.sizes:  # bit k doubles the table
        sizes = np.concatenate([sizes, sizes * size])
    return sizes
