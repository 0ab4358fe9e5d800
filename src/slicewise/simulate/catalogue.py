"""Slicings that plans have been met with, numbered, and what is known of each: priced once, looked up from then on."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from slicewise.cost.borders import border_axes
from slicewise.cost.model import CostModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.choices import DIMS, Choices, Floats, Ints, Layouts, input_port, output_port


@dataclass(frozen=True, kw_only=True)
class Known:
    """Of layers that are alike, one entry per slicing."""

    forth_s: Floats  # forward, with half of the statistics' exchange
    backward_s: Floats
    update_s: Floats
    halo_s: Floats
    reduce_s: Floats
    statistics_axes: Ints
    border_axes: Ints
    sync_axes: Ints  # that gradients are summed over
    weight_items: Ints  # [weight, slicing], of rank 0, which has the largest part
    reduces: bool

    @classmethod
    def of(cls, model: CostModel, layer: Layer, rows: Choices) -> "Known":
        timed = model.layer_seconds(layer, rows)
        sharding = set("".join(weight.dims for weight in layer.weights))
        borders = timed.halo_s.any()
        return cls(
            forth_s=timed.forward_s + 0.5 * timed.reduce_s,
            backward_s=timed.backward_s,
            update_s=timed.update_s,
            halo_s=timed.halo_s,
            reduce_s=timed.reduce_s,
            statistics_axes=rows.axes_of(layer.statistics) if layer.statistics else np.zeros(len(rows), dtype=np.int64),
            border_axes=border_axes(layer, rows, model.network) if borders else np.zeros(len(rows), dtype=np.int64),
            sync_axes=rows.axes_of([dim for dim in Dim if dim not in sharding]),
            weight_items=np.array([_items(weight.dims, weight.shape, rows) for weight in layer.weights]).reshape(
                len(layer.weights), len(rows)
            ),
            reduces=bool(layer.statistics),
        )

    def with_more(self, other: "Known") -> "Known":
        arrays = {
            item.name: np.concatenate([getattr(self, item.name), getattr(other, item.name)], axis=-1)
            for item in fields(self)
            if item.name != "reduces"
        }
        return Known(**arrays, reduces=self.reduces)


class Layers:
    """Layers that are alike: their slicings, numbered in the order in which they came."""

    def __init__(self, model: CostModel, layer: Layer) -> None:
        self.model, self.layer = model, layer
        self._number: dict[bytes, int] = {}
        self.rows = Choices.of([], model.cluster.mesh)
        self._known: Known | None = None

    @property
    def known(self) -> Known:
        assert self._known is not None, "plans are numbered before they are played"
        return self._known

    def numbers(self, choices: Choices) -> Ints:
        labels = [row.tobytes() for row in choices.labels]
        new = {row: place for place, row in reversed(list(enumerate(labels))) if row not in self._number}
        if new:
            more = choices.rows(np.array(sorted(new.values())))
            self._number |= {row.tobytes(): number for number, row in enumerate(more.labels, start=len(self.rows))}
            self.rows = Choices(np.concatenate([self.rows.labels, more.labels]), more.mesh)
            priced = Known.of(self.model, self.layer, more)
            self._known = self._known.with_more(priced) if self._known else priced
        return np.array([self._number[row] for row in labels], dtype=np.int64)


class EdgeMoves:
    """Layout changes on edges that are alike, by the numbers of both ends' slicings; NaN where not yet met."""

    def __init__(self, model: CostModel, consumer: Layer, slot: int, before: Layers, after: Layers) -> None:
        self.model, self.consumer, self.slot, self.before, self.after = model, consumer, slot, before, after
        self._seconds = np.empty((0, 0))
        self._axes = np.empty((0, 0), dtype=np.int64)

    def between(self, one: Ints, other: Ints) -> tuple[Floats, Ints]:
        """Seconds, forward and backward together, and the axes along which the two layouts differ."""
        self._make_room()
        seconds = self._seconds[one, other]
        if (missing := np.isnan(seconds)).any():
            wide = len(self.after.rows)
            pairs = np.unique((one * wide + other)[missing])
            self._price(pairs // wide, pairs % wide)
            seconds = self._seconds[one, other]
        return seconds, self._axes[one, other]

    def _make_room(self) -> None:
        shape = (len(self.before.rows), len(self.after.rows))
        if self._seconds.shape == shape:
            return
        height, width = self._seconds.shape
        seconds, axes = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
        seconds[:height, :width], axes[:height, :width] = self._seconds, self._axes
        self._seconds, self._axes = seconds, axes

    def _price(self, one: Ints, other: Ints) -> None:
        before, after = self.before.rows.rows(one), self.after.rows.rows(other)
        given = output_port(self.before.layer, before)
        wanted = input_port(self.consumer, self.slot, after)
        self._seconds[one, other] = self.model.pair_seconds(self.consumer, self.slot, before, after)
        self._axes[one, other] = _differing(given.value, wanted.value) | _differing(given.gradient, wanted.gradient)


def _differing(one: Layouts, other: Layouts) -> Ints:
    """The axes along which two layouts are not the same."""
    axes: Ints = np.bitwise_or.reduce(one.by_dim ^ other.by_dim, axis=1) | (one.partial ^ other.partial)
    return axes


def _items(dims: str, shape: Sequence[int], rows: Choices) -> Ints:
    items = np.ones(len(rows), dtype=np.int64)
    for letter, size in zip(dims, shape, strict=True):
        items *= -(-size // rows.degrees(Dim(letter))) if letter in DIMS else size
    return items
