"""Layout changes that were priced stay priced: per tensor shape one table of layouts by layouts, filled as asked for.

A search asks for the same pairs over and over: layers of one shape follow each other, each round of refinement keeps
most of the slicings of the round before, and gradients change between the layouts that values had. Only what is new
goes to transitions.py. Where lists are short, all of their pairs do at once: one large table is sooner priced than
many small parts of it.
"""

from dataclasses import dataclass, field

import numpy as np

from slicewise.cost.network import Network
from slicewise.cost.transitions import transition_seconds
from slicewise.partition.choices import Floats, Ints, Layouts

_MOST_LAYOUTS = 1 << 10  # of one shape: 8 MiB
_MOST_ENTRIES = 1 << 25  # of all shapes: 256 MiB; what does not fit is priced each time

Shape = tuple[int, ...]


@dataclass(kw_only=True)
class _Table:
    """[source, target] -> seconds, NaN where nobody asked; a layout's place is the order in which it came."""

    keys: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # sorted
    places: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of each key
    seconds: Floats = field(default_factory=lambda: np.empty((0, 0)))
    # per list of layouts that was met the place of each, negative where it has none; and the list, so that it lives
    met: dict[int, tuple[Layouts, Ints]] = field(default_factory=dict)

    def at(self, layouts: Layouts) -> Ints:
        """The place of each, negative where it has none."""
        whole, kept = layouts.among or (layouts, slice(None))
        if id(whole) not in self.met:
            self.met[id(whole)] = whole, self._found(whole.keys)
        places = self.met[id(whole)][1][kept]
        if places.min(initial=0) < 0:  # they may have come with another list since
            places = self.met[id(whole)][1][kept] = self._found(layouts.keys)
        return places

    def missing(self, layouts: Layouts) -> Ints:
        """Keys that have no place."""
        keys = layouts.distinct[0].keys
        return keys[self._found(keys) < 0]

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

    def between(self, rows: Ints, columns: Ints) -> Floats:
        if len(columns) > len(self.seconds) >> 2:  # most of what a row holds is wanted: rows first
            return self.seconds.take(rows, axis=0).take(columns, axis=1)
        return self.seconds.take(rows[:, None] * len(self.seconds) + columns)

    def _found(self, keys: Ints) -> Ints:
        if not len(self.keys):
            return np.full(len(keys), -1)
        near = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[near] == keys, self.places[near], -1)


@dataclass(frozen=True, eq=False)
class Moves:
    """Seconds of layout changes on a network."""

    network: Network
    item_bytes: int
    _tables: dict[Shape, _Table] = field(default_factory=dict)

    def seconds(self, shape: Shape, source: Layouts, target: Layouts) -> Floats:
        """[source, target] -> seconds."""
        table = self._tables.setdefault(shape, _Table())
        rows, columns = table.at(source), table.at(target)
        if rows.min(initial=0) < 0 or columns.min(initial=0) < 0:
            if not any(self._taken_in(table, *pair) for pair in (_wholes(source, target), (source, target))):
                return self._priced(shape, source, target)
            rows, columns = table.at(source), table.at(target)
        seconds = table.between(rows, columns)
        if not np.isnan(seconds.sum()):
            return seconds
        one, other = _wholes(source, target)
        if table.at(one).min() < 0 or table.at(other).min() < 0:
            one, other = source.distinct[0], target.distinct[0]
        self._fill(table, shape, one, other)
        return table.between(rows, columns)

    def _taken_in(self, table: _Table, source: Layouts, target: Layouts) -> bool:
        """Whether the table has room for these layouts."""
        if max(len(source), len(target)) > _MOST_LAYOUTS:
            return False
        new = np.union1d(table.missing(source), table.missing(target))
        needed, size = len(table.keys) + len(new), len(table.seconds)
        if needed > size:
            size = max(needed, min(2 * size, _MOST_LAYOUTS))
        held = sum(each.seconds.size for each in self._tables.values())
        if size > _MOST_LAYOUTS or held - table.seconds.size + size**2 > _MOST_ENTRIES:
            return False
        if size > len(table.seconds):
            table.widen(size)
        table.take_in(new)
        return True

    def _fill(self, table: _Table, shape: Shape, source: Layouts, target: Layouts) -> None:
        """Rows of which most is new are priced whole; of the others, the columns where anything is."""
        unknown = np.isnan(table.between(table.at(source), table.at(target)))
        per_row = unknown.sum(axis=1)
        new = per_row > len(target) // 2
        rest = np.flatnonzero((per_row > 0) & ~new)
        parts = (np.flatnonzero(new), np.arange(len(target))), (rest, np.flatnonzero(unknown[rest].any(axis=0)))
        for rows, columns in parts:
            if len(rows):
                one, other = source.rows(rows), target.rows(columns)
                priced = transition_seconds(shape, one, other, self.network, self.item_bytes)
                table.seconds[table.at(one)[:, None], table.at(other)] = priced

    def _priced(self, shape: Shape, source: Layouts, target: Layouts) -> Floats:
        """Slicings may share a layout: each is priced once and spread."""
        (sources, source_index), (targets, target_index) = source.distinct, target.distinct
        seconds = transition_seconds(shape, sources, targets, self.network, self.item_bytes)
        if target_index is not None:
            seconds = seconds[:, target_index]
        return seconds if source_index is None else seconds[source_index]


def _wholes(*layouts: Layouts) -> list[Layouts]:
    """All different layouts of the lists that these were taken from: the next round asks for others of them."""
    return [(each.among[0] if each.among else each).distinct[0] for each in layouts]
