"""Layout changes that were priced stay priced: per tensor shape one table of layouts by layouts, filled as asked for.

A search asks for the same pairs over and over: layers of one shape follow each other, each round of refinement keeps
most of the slicings of the round before, and gradients change between the layouts that values had. Only what is new
goes to transitions.py.
"""

from dataclasses import dataclass, field

import numpy as np

from slicewise.cost.network import Network
from slicewise.cost.transitions import transition_seconds
from slicewise.partition.choices import Floats, Ints, Layouts

_MOST_LAYOUTS = 1 << 10  # of one shape: 8 MiB
_MOST_ENTRIES = 1 << 25  # of all shapes: 256 MiB; what does not fit is priced each time
_FIRST_LAYOUTS = 1 << 6

Shape = tuple[int, ...]


@dataclass(kw_only=True)
class _Table:
    """[source, target] -> seconds, NaN where nobody asked; a layout's place is the order in which it came."""

    keys: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # sorted
    places: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of each key
    seconds: Floats = field(default_factory=lambda: np.full((_FIRST_LAYOUTS, _FIRST_LAYOUTS), np.nan))
    # per list of layouts that was met the place of each, negative where nobody asked; and the list, so that it lives
    met: dict[int, tuple[Layouts, Ints]] = field(default_factory=dict)

    def missing(self, layouts: Layouts) -> Ints:
        """Keys that have no place."""
        keys = layouts.keys[self._places(layouts) < 0]
        if not len(keys) or not len(self.keys):
            return np.unique(keys)
        near = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.unique(keys[self.keys[near] != keys])

    def take_in(self, new: Ints) -> None:
        known = len(self.keys)
        keys, places = np.concatenate([self.keys, new]), np.concatenate([self.places, known + np.arange(len(new))])
        order = np.argsort(keys)
        self.keys, self.places = keys[order], places[order]

    def widen(self, size: int) -> None:
        wider = np.full((size, size), np.nan)
        before = len(self.seconds)
        wider[:before, :before] = self.seconds
        self.seconds = wider

    def at(self, layouts: Layouts) -> Ints:
        """The places of layouts that all have one."""
        places = self._places(layouts)
        if (places < 0).any():
            whole, kept = layouts.among or (layouts, slice(None))
            places = self.places[np.searchsorted(self.keys, layouts.keys)]
            self.met[id(whole)][1][kept] = places
        return places

    def between(self, rows: Ints, columns: Ints) -> Floats:
        return self.seconds.take(rows[:, None] * len(self.seconds) + columns)

    def _places(self, layouts: Layouts) -> Ints:
        whole, kept = layouts.among or (layouts, slice(None))
        if id(whole) not in self.met:
            self.met[id(whole)] = whole, np.full(len(whole), -1)
        return self.met[id(whole)][1][kept]


@dataclass(frozen=True, eq=False)
class Moves:
    """Seconds of layout changes on a network."""

    network: Network
    item_bytes: int
    _tables: dict[Shape, _Table] = field(default_factory=dict)

    def seconds(self, shape: Shape, source: Layouts, target: Layouts) -> Floats:
        """[source, target] -> seconds."""
        table = self._tables.setdefault(shape, _Table())
        new_layouts = np.concatenate([table.missing(source), table.missing(target)])
        if len(new_layouts) and not self._room(table, np.unique(new_layouts)):
            return self._priced(shape, source, target)
        rows, columns = table.at(source), table.at(target)
        seconds = table.between(rows, columns)
        if not np.isnan(seconds.sum()):
            return seconds
        unknown = np.isnan(seconds)
        per_row = unknown.sum(axis=1)
        new = per_row > len(columns) // 2  # most of the row, so all of it; of the others, columns
        if new.any():
            self._fill(table, shape, source, target, np.flatnonzero(new), np.arange(len(columns)))
        rest = np.flatnonzero((per_row > 0) & ~new)
        if len(rest):
            self._fill(table, shape, source, target, rest, np.flatnonzero(unknown[rest].any(axis=0)))
        return table.between(rows, columns)

    def _room(self, table: _Table, new: Ints) -> bool:
        """Whether the table takes these layouts in as well."""
        needed, size = len(table.keys) + len(new), len(table.seconds)
        while size < needed:
            size *= 2
        held = sum(each.seconds.size for each in self._tables.values())
        if size > _MOST_LAYOUTS or held - table.seconds.size + size**2 > _MOST_ENTRIES:
            return False
        if size > len(table.seconds):
            table.widen(size)
        table.take_in(new)
        return True

    def _fill(self, table: _Table, shape: Shape, source: Layouts, target: Layouts, rows: Ints, columns: Ints) -> None:
        one, other = source.rows(rows), target.rows(columns)
        (one, _), (other, _) = one.distinct, other.distinct
        priced = transition_seconds(shape, one, other, self.network, self.item_bytes)
        table.seconds[table.at(one)[:, None], table.at(other)] = priced

    def _priced(self, shape: Shape, source: Layouts, target: Layouts) -> Floats:
        """Slicings may share a layout: each is priced once and spread."""
        (sources, source_index), (targets, target_index) = source.distinct, target.distinct
        seconds = transition_seconds(shape, sources, targets, self.network, self.item_bytes)
        if target_index is not None:
            seconds = seconds[:, target_index]
        return seconds if source_index is None else seconds[source_index]
