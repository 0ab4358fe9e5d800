"""Many plans simulated at once: what `simulate_step` says of each, one array entry per plan.

Every layer has one slicing for all plans, or one for each: plans that differ in few layers share all that is equal.
Forward has no gradients under way, so its time is a sum. Backward is played for all plans together
(simulate/queues.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicewise.cost.borders import border_axes
from slicewise.cost.breakdown import LayerSeconds
from slicewise.cost.model import CostModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.graph.dims import Dim
from slicewise.partition.buckets import BUCKET_ITEMS
from slicewise.partition.choices import DIMS, Choices, Floats, Ints, Layouts, input_port, output_port
from slicewise.partition.layout import Slicing
from slicewise.simulate.queues import NO_TIER, Buckets, Queue

_NEVER = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One entry per plan."""

    seconds: Floats
    exposed_sync_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """A layout change, forward and backward together, and the axes it crosses."""

    seconds: Floats
    axes: Ints


class ManyPlans:
    """The plans of one model. What is priced once is remembered."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self._layers: dict[object, LayerSeconds] = {}
        self._edges: dict[object, _Moved] = {}
        graph = model.graph
        self._returning = [layer.name in graph.gradients and model.wants_input_gradient(layer) for layer in graph]

    def simulated_s(self, plans: Sequence[Mapping[str, Slicing]]) -> list[float]:
        """The simulated step of each plan."""
        mesh = self.model.cluster.mesh
        columns = []
        for layer in self.model.graph:
            slicings = [plan[layer.name] for plan in plans]
            columns.append(Choices.of(slicings if len(set(slicings)) > 1 else slicings[:1], mesh))
        seconds = self.play(columns).seconds
        return [float(value) for value in np.broadcast_to(seconds, len(plans))]

    def play(self, choices: Sequence[Choices]) -> Played:
        """`choices`: per layer one row for all plans, or a row for each."""
        plans = max(map(len, choices))
        terms = [self._layer(number, rows) for number, rows in enumerate(choices)]
        moved = [self._moved(number, choices) for number in range(len(choices))]
        forward_s, update_s = np.zeros(plans), np.zeros(plans)
        for number, (timed, moves) in enumerate(zip(terms, moved, strict=True)):
            share = 0.5 if self._returning[number] else 1.0
            forward_s += share * (moves.seconds + timed.halo_s) + 0.5 * timed.reduce_s + timed.forward_s
            update_s += timed.update_s
        queue = Queue(self._buckets(choices, plans), len(choices))
        backward_s = self._backward(queue, terms, moved, choices, plans)
        exposed_s = queue.rest_s() + (1 - self.model.cluster.overlap) * queue.hidden_s
        return Played(seconds=forward_s + backward_s + exposed_s + update_s, exposed_sync_s=exposed_s)

    def _backward(
        self,
        queue: Queue,
        terms: Sequence[LayerSeconds],
        moved: Sequence[_Moved],
        choices: Sequence[Choices],
        plans: int,
    ) -> Floats:
        """Compute between two events is one task: nothing happens inside it that another layer's could change."""
        taken_s = np.zeros(plans)
        compute_s = np.zeros(plans)
        admitting = set(queue.admitting.tolist())
        last = len(choices) - 1
        for position, number in enumerate(range(last, -1, -1)):
            for busy_s, axes in self._tasks(number, terms[number], moved[number], choices[number]):
                if axes is None:
                    compute_s += busy_s
                    continue
                taken_s += queue.beside(compute_s)
                taken_s += queue.beside(busy_s, self._tiers[axes])
                compute_s = np.zeros(plans)
            if position in admitting:
                taken_s += queue.beside(compute_s)
                compute_s = np.zeros(plans)
                queue.admit(position)
        return taken_s + queue.beside(compute_s)

    def _tasks(
        self, number: int, timed: LayerSeconds, moved: _Moved, rows: Choices
    ) -> Iterator[tuple[Floats, Ints | None]]:
        """A layer's backward in order: seconds, and the axes that it communicates along."""
        layer = self.model.graph.layers[number]
        if layer.statistics and timed.reduce_s.any():
            yield 0.5 * timed.reduce_s, rows.axes_of(layer.statistics)
        yield timed.backward_s, None
        if self._returning[number]:
            if timed.halo_s.any():
                yield 0.5 * timed.halo_s, border_axes(layer, rows, self.model.network)
            if moved.seconds.any():
                yield 0.5 * moved.seconds, moved.axes

    def _layer(self, number: int, rows: Choices) -> LayerSeconds:
        layer = self.model.graph.layers[number]
        if len(rows) > 1:
            return self.model.layer_seconds(layer, rows)
        key = (self.model.alike[number], rows.labels.tobytes())
        if key not in self._layers:
            self._layers[key] = self.model.layer_seconds(layer, rows)
        return self._layers[key]

    def _moved(self, number: int, choices: Sequence[Choices]) -> _Moved:
        """All layout changes into a layer."""
        layer, graph = self.model.graph.layers[number], self.model.graph
        seconds, axes = np.zeros(1), np.zeros(1, dtype=np.int64)
        for slot, source in enumerate(layer.inputs):
            edge = self._edge(graph.index[source], number, slot, choices)
            seconds, axes = seconds + edge.seconds, axes | edge.axes
        return _Moved(seconds=seconds, axes=axes)

    def _edge(self, producer: int, consumer: int, slot: int, choices: Sequence[Choices]) -> _Moved:
        before, after = choices[producer], choices[consumer]
        if len(before) > 1 or len(after) > 1:
            return self._changed(producer, consumer, slot, before, after)
        alike = self.model.alike
        key = (alike[producer], alike[consumer], slot, before.labels.tobytes(), after.labels.tobytes())
        if key not in self._edges:
            self._edges[key] = self._changed(producer, consumer, slot, before, after)
        return self._edges[key]

    def _changed(self, producer: int, consumer: int, slot: int, before: Choices, after: Choices) -> _Moved:
        layers = self.model.graph.layers
        plans = max(len(before), len(after))
        one, other = _repeated(before, plans), _repeated(after, plans)
        given, wanted = output_port(layers[producer], one), input_port(layers[consumer], slot, other)
        return _Moved(
            seconds=self.model.pair_seconds(layers[consumer], slot, one, other),
            axes=_differing(given.value, wanted.value) | _differing(given.gradient, wanted.gradient),
        )

    @cached_property
    def _tiers(self) -> Ints:
        """By mask, the widest tier that its axes cross: axes come from the widest tier inwards."""
        axes = self.model.cluster.mesh.axes
        return np.array([NO_TIER, *(axes[(mask & -mask).bit_length() - 1].tier for mask in range(1, 1 << len(axes)))])

    def _buckets(self, choices: Sequence[Choices], plans: int) -> Buckets:
        """As partition/buckets.py fills them: in the order of backward, one open bucket per set of axes."""
        weights = list(self._gradients(choices))
        filled: dict[int, Ints] = {}  # by axes, per plan: items in the open bucket, and its number
        number: dict[int, Ints] = {}
        count = np.zeros(plans, dtype=np.int64)
        items = np.zeros((plans, len(weights) + 1), dtype=np.int64)
        ready = np.full((plans, len(weights) + 1), _NEVER)
        axes = np.zeros((plans, len(weights) + 1), dtype=np.int64)
        every = np.arange(plans)
        for position, masks, sizes in weights:
            for mask in np.unique(masks):
                if not mask:
                    continue
                rows = every if len(masks) == 1 else np.flatnonzero(masks == mask)
                size = sizes if len(sizes) == 1 else sizes[rows]
                here = filled.setdefault(int(mask), np.zeros(plans, dtype=np.int64))
                current = number.setdefault(int(mask), np.zeros(plans, dtype=np.int64))
                before = here[rows]
                fresh = (before == 0) | (before + size > BUCKET_ITEMS)
                new = rows[fresh]
                current[new] = count[new]
                count[new] += 1
                here[rows] = np.where(fresh, 0, before) + size
                into = current[rows]
                items[rows, into] += size
                ready[rows, into] = position
                axes[rows, into] = mask
        most = max(1, int(count.max(initial=0)))
        items, ready, axes = items[:, :most], ready[:, :most], axes[:, :most]
        order = np.argsort(ready, axis=1, kind="stable")
        items, ready, axes = (np.take_along_axis(table, order, axis=1) for table in (items, ready, axes))
        lines = self.model.network.all_reduce_lines
        alone_s = np.where(items > 0, lines.latency_s[axes] + lines.s_per_byte[axes] * items * WEIGHT_BYTES, 0.0)
        return Buckets(ready=ready, alone_s=alone_s, tier=self._tiers[axes])

    def _gradients(self, choices: Sequence[Choices]) -> Iterator[tuple[int, Ints, Ints]]:
        """Trained weights as backward comes to the last of their readers: its position, axes to sum over, items."""
        layers = self.model.graph.layers
        seen: set[str] = set()
        listed = []
        for number, layer in enumerate(layers):
            for place, weight in enumerate(layer.weights):
                if weight.name not in seen and weight.trained:
                    listed.append((number, place))
                seen.add(weight.name)
        for number, place in reversed(listed):
            layer, rows = layers[number], choices[number]
            sharding = set("".join(weight.dims for weight in layer.weights))
            masks = rows.axes_of([dim for dim in Dim if dim not in sharding])
            yield len(layers) - 1 - number, masks, self._weight_items(number, place, rows)

    def _weight_items(self, number: int, place: int, rows: Choices) -> Ints:
        """Of rank 0, which has the largest part."""
        weight = self.model.graph.layers[number].weights[place]
        items = np.ones(len(rows), dtype=np.int64)
        for letter, size in zip(weight.dims, weight.shape, strict=True):
            items *= -(-size // rows.degrees(Dim(letter))) if letter in DIMS else size
        return items


def _repeated(rows: Choices, count: int) -> Choices:
    return rows if len(rows) == count else rows.rows(np.zeros(count, dtype=np.int64))


def _differing(one: Layouts, other: Layouts) -> Ints:
    """The axes along which two layouts are not the same."""
    axes: Ints = np.bitwise_or.reduce(one.by_dim ^ other.by_dim, axis=1) | (one.partial ^ other.partial)
    return axes
