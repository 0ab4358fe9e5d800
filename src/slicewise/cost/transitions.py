"""The seconds of every layout change at once: all pairs of two lists of layouts, in array operations.

The steps are those of partition/steps.py. Sizes are the largest parts, as if all parts were that large; then no rank
has to be looked at. Along one dim, two nested chunkings are either aligned (the axes of one are the first axes of the
other: one part lies inside the other) or some rank's two parts have nothing in common. So what the slowest rank
already holds is, along each dim, the smaller of the two parts or nothing at all.

Everything about a pair is put together from small tables over what occurs: per half of the dims, per set of partial
axes. Rows of these are gathered and combined in blocks that stay in the processor's cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.mesh import Mesh
from slicewise.cost.network import Network
from slicewise.partition.choices import Floats, Ints, Layouts, group_sizes, outer_masks

_PAIRS_AT_ONCE = 1 << 16
Bools = NDArray[np.bool_]


def transition_seconds(
    shape: tuple[int, ...], source: Layouts, target: Layouts, network: Network, item_bytes: int
) -> Floats:
    """[source, target] -> seconds."""
    if not shape:  # a number: nothing to slice, only to sum
        reduced = source.partial[:, None] & ~target.partial
        lines = network.all_reduce_lines
        summed_s: Floats = lines.latency_s[reduced] + lines.s_per_byte[reduced] * item_bytes
        return summed_s
    pairs = _Pairs(shape, source, target, network, item_bytes)
    height = max(1, _PAIRS_AT_ONCE // max(1, len(target)))
    seconds = np.empty((len(source), len(target)))
    for start in range(0, len(source), height):
        seconds[start : start + height] = pairs.seconds(slice(start, start + height))
    return seconds


@dataclass(frozen=True)
class _Pairs:
    shape: tuple[int, ...]
    source: Layouts
    target: Layouts
    network: Network
    item_bytes: int

    def seconds(self, rows: slice) -> Floats:
        codes: NDArray[np.int32] = self._codes.rows(rows, np.add)
        crossed, holds = codes >> 12, (codes & 0xF0) == 0
        gathers = (codes & 0xF0F) == 1
        terms, term = self._terms, None
        if terms is not None:
            term = terms.index[rows]
            summed = terms.summed[term]
            crossed |= summed
            apart = summed == 0
            holds &= apart
            gathers &= apart
        # all-to-all: what is needed, less what the ranks sharing the outer tiers hold, and so on inwards
        result: Floats = self._outside[term] if term is not None else self._outside.repeat(len(codes), axis=0)
        for tier, table in enumerate(self._inside):
            inside = table.rows(rows, np.multiply)
            if terms is not None:
                inside *= terms.inside[tier][term]
            result -= inside
        result += self.network.all_to_all_latencies[crossed]
        gathers &= ~holds
        if gathers.any():
            one, other = np.nonzero(gathers)
            axes = crossed[one, other] & ~self.target.sharded[other]
            lines = self.network.all_gather_lines
            result[one, other] = lines.latency_s[axes] + lines.s_per_byte[axes] * self._needed_bytes[other]
        result[holds] = 0.0
        if terms is not None:  # a rank that holds what it needs slices before it reduces
            message = np.where(holds, self._needed_bytes, self._held_bytes[rows, None])
            result += terms.latency_s[term] + terms.s_per_byte[term] * message
        return result

    @cached_property
    def _codes(self) -> "_Halves":
        """Per dim one packed number: bits 0-3 count dims that differ, 4-7 those not held, 8-11 those that differ and
        are no gather (outermost axes kept, even parts); from bit 12 on the axes crossed, which no two dims share."""

        return _Halves.of(self.source, self.target, partial(self._of_dim, _code), np.add)

    @cached_property
    def _inside(self) -> list["_Halves"]:
        """Per tier, what the ranks sharing the tiers up to it hold of a target part, at the slowest rank.

        In seconds: bytes held are not received over this tier but over the next one, or not at all.
        """

        common = partial(self._of_dim, _common)
        tables = []
        for tier, outer in enumerate(self._outer):
            whole = tier == len(self._outer) - 1
            held = self.source if whole else self.source.cut_to(outer)
            tables.append(_Halves.of(held, self.target, common, np.multiply, self._weights[tier]))
        return tables

    def _of_dim(self, table: "_Table", dim: int, one: Ints, other: Ints) -> NDArray[Any]:
        """Lists of slicings have few sets of axes, most the same: each pair of sets is looked at once per extent."""
        return _masks_by_masks(table, self.shape[dim], self.network.cluster.mesh, one.tobytes(), other.tobytes())

    @cached_property
    def _terms(self) -> "_Terms | None":
        """What the sets of partial axes do; None where nothing is partial."""
        if not self.source.partial.any():
            return None
        mesh = self.network.cluster.mesh
        masks, index = np.unique(self.source.partial, return_inverse=True)
        summed = masks[:, None] & self.target.sharded
        reduced = masks[:, None] & ~(self.target.sharded | self.target.partial)
        lines = self.network.all_reduce_lines
        return _Terms(
            index=index,
            summed=summed.astype(np.int32),
            inside=[group_sizes(summed & ~outer, mesh).astype(float) for outer in self._outer],
            latency_s=lines.latency_s[reduced],
            s_per_byte=lines.s_per_byte[reduced],
        )

    @cached_property
    def _outside(self) -> Floats:
        """[partial axes, target]: all that is needed, once per summand, over the outermost tier."""
        rate = self.network.all_to_all_s_per_byte(0)
        if self._terms is None:
            return (self._needed_bytes * rate)[None, :]
        return self._needed_bytes * rate * group_sizes(self._terms.summed.astype(np.int64), self.network.cluster.mesh)

    @cached_property
    def _outer(self) -> list[int]:
        return outer_masks(self.network.cluster.mesh, len(self.network.cluster.tiers))

    @cached_property
    def _weights(self) -> list[float]:
        rates = [self.network.all_to_all_s_per_byte(tier) for tier in range(len(self._outer))] + [0.0]
        return [self.item_bytes * (rates[tier] - rates[tier + 1]) for tier in range(len(self._outer))]

    @cached_property
    def _needed_bytes(self) -> Floats:
        return self._items(self.target) * self.item_bytes

    @cached_property
    def _held_bytes(self) -> Floats:
        return self._items(self.source) * self.item_bytes

    def _items(self, layouts: Layouts) -> Floats:
        parts = [self._part(dim, layouts.by_dim[:, dim]) for dim in range(len(self.shape))]
        items: Floats = np.prod(np.array(parts, dtype=float), axis=0)
        return items

    def _part(self, dim: int, masks: Ints) -> Ints:
        return -(-self.shape[dim] // group_sizes(masks, self.network.cluster.mesh))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """Tables [partial axes, target], and which set of partial axes each source has."""

    index: Ints
    summed: NDArray[np.int32]  # the axes along which a shard of the sum is wanted
    inside: list[Floats]  # per tier, the summands that lie inside it
    latency_s: Floats  # of the all-reduce of the others
    s_per_byte: Floats


@dataclass(frozen=True, slots=True)
class _Halves:
    """Something about each pair as one table per half of the dims, [masks of the source, target]."""

    tables: tuple[NDArray[Any], ...]
    index: tuple[Ints, ...]  # per half, each source's row in the table

    @classmethod
    def of(
        cls,
        source: Layouts,
        target: Layouts,
        of_dim: Callable[[int, Ints, Ints], NDArray[Any]],
        join: np.ufunc,
        factor: float | None = None,
    ) -> "_Halves":
        tables, index = [], []
        for half in source.halves:
            joined: NDArray[Any] | None = None
            for dim, before, before_index in half.columns:
                after, after_index = target.columns[dim]
                table = of_dim(dim, before, after)[:, after_index][before_index]
                joined = table if joined is None else join(joined, table, out=joined)
            assert joined is not None
            tables.append(joined)
            index.append(half.index)
        if factor is not None:
            tables[0] = tables[0] * factor
        if len(tables) == 2 and len(tables[0]) * len(tables[1]) <= len(source):
            both, rows = np.unique(index[0] * len(tables[1]) + index[1], return_inverse=True)
            one, other = np.divmod(both, len(tables[1]))
            return cls((join(tables[0][one], tables[1][other]),), (rows,))
        return cls(tuple(tables), tuple(index))

    def rows(self, rows: slice, join: np.ufunc) -> NDArray[Any]:
        result = self.tables[0][self.index[0][rows]]
        for table, index in zip(self.tables[1:], self.index[1:], strict=True):
            join(result, table[index[rows]], out=result)
        return result


_Table = Callable[[int, Mesh, Ints, Ints], NDArray[Any]]


@lru_cache(maxsize=1024)
def _masks_by_masks(table: _Table, extent: int, mesh: Mesh, one: bytes, other: bytes) -> NDArray[Any]:
    before, after = (np.frombuffer(masks, dtype=np.int64) for masks in (one, other))
    return table(extent, mesh, before[:, None], after[None, :])


def _code(extent: int, mesh: Mesh, one: Ints, other: Ints) -> NDArray[np.int32]:
    """How two chunkings of a dim differ, packed as _Pairs._codes says."""
    differs = one != other
    even = extent % group_sizes(one, mesh) == 0
    code = differs + (differs & ~_starts(one, other)) * 16 + (differs & ~(_starts(other, one) & even)) * 256
    parting = one ^ other
    crossed = one & -(parting & -parting)  # from the first axis on that only one of them has
    packed: NDArray[np.int32] = (code + (crossed << 12)).astype(np.int32)
    return packed


def _common(extent: int, mesh: Mesh, one: Ints, other: Ints) -> Floats:
    """What two chunkings of a dim have in common at the slowest rank."""
    smaller = -(-extent // np.maximum(group_sizes(one, mesh), group_sizes(other, mesh)))
    return np.where(_starts(one, other) | _starts(other, one), smaller, 0).astype(float)


def _starts(one: Ints, other: Ints) -> Bools:
    """Whether the axes of `one` are the first of `other`'s: then a part of `other` lies in a part of `one`."""
    below = one.copy()
    for shift in (1, 2, 4, 8):
        below |= below >> shift
    result: Bools = (other & below) == one
    return result
