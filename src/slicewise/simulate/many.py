"""Many plans simulated at once: what `simulate_step` says of each, one array entry per plan.

Slicings and layout changes are priced when they are first met, and looked up from then on (simulate/catalogue.py).
Forward has no gradients under way, so its time is a sum. Backward is played for all plans together
(simulate/queues.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.partition.layout import Slicing
from slicewise.simulate.catalogue import EdgeMoves, Known, Layers
from slicewise.simulate.queues import NO_TIER, Buckets, Queue

_NEVER = 1 << 40

Column = Ints  # a layer's slicing by its number in the catalogue: one for all plans, or one for each


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One entry per plan."""

    seconds: Floats
    exposed_sync_s: Floats


@dataclass(frozen=True, slots=True)
class _Moved:
    """A layout change, forward and backward together, and the axes it crosses."""

    seconds: Floats
    axes: Ints


class ManyPlans:
    """The plans of one model. What is priced once is remembered."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        graph = model.graph
        layers: dict[int, Layers] = {}
        for layer, alike in zip(graph, model.alike, strict=True):
            if alike not in layers:
                layers[alike] = Layers(model, layer)
        self._layers = [layers[alike] for alike in model.alike]
        moves: dict[object, EdgeMoves] = {}
        self._into: list[list[tuple[int, EdgeMoves]]] = [[] for _ in graph]
        for producer, consumer, slot in graph.edges:
            key = (model.alike[producer], model.alike[consumer], slot)
            if key not in moves:
                moves[key] = EdgeMoves(
                    model, graph.layers[consumer], slot, self._layers[producer], self._layers[consumer]
                )
            self._into[consumer].append((producer, moves[key]))
        self._lent = [model.lent_forward(layer) for layer in graph]
        self._returning = [layer.name in graph.gradients and model.wants_input_gradient(layer) for layer in graph]

    def with_buckets(self, model: CostModel) -> "ManyPlans":
        """Of a model that differs in the size of buckets alone: what is priced stays priced."""
        other = copy(self)
        other.model = model
        return other

    def simulated_s(self, plans: Sequence[Mapping[str, Slicing]]) -> list[float]:
        """The simulated step of each plan."""
        columns = []
        for layer, known in zip(self.model.graph, self._layers, strict=True):
            slicings = [plan[layer.name] for plan in plans]
            several = slicings if len(set(slicings)) > 1 else slicings[:1]
            columns.append(known.numbers(Choices.of(several, self.model.cluster.mesh)))
        return self.steps_s(columns, len(plans))

    def steps_s(self, columns: Sequence[Column], plans: int) -> list[float]:
        return [float(value) for value in np.broadcast_to(self.play(columns).seconds, plans)]

    def numbers(self, choices: Sequence[Choices]) -> list[Ints]:
        """Per layer, the number in the catalogue of each of its choices."""
        found: dict[tuple[int, int], Ints] = {}
        for known, rows in zip(self._layers, choices, strict=True):
            if (id(known), id(rows)) not in found:
                found[id(known), id(rows)] = known.numbers(rows)
        return [found[id(known), id(rows)] for known, rows in zip(self._layers, choices, strict=True)]

    def play(self, columns: Sequence[Column], bucket_items: int | None = None) -> Played:
        """With buckets of the model's size, or of another."""
        plans = max(map(len, columns))
        known = [layers.known for layers in self._layers]
        moved = [self._moved(number, columns) for number in range(len(columns))]
        forward_s, update_s = np.zeros(plans), np.zeros(plans)
        for number, (timed, moves, rows) in enumerate(zip(known, moved, columns, strict=True)):
            share = 0.5 if self._returning[number] else 1.0
            forward_s += share * moves.seconds + self._lent[number] * timed.halo_s[rows] + timed.forth_s[rows]
            update_s += timed.update_s[rows]
        filled = self._buckets(columns, plans, bucket_items or self.model.training.bucket_items)
        queue_s = np.array([tier.queue_s or 0.0 for tier in self.model.cluster.tiers])
        queue = Queue(filled, len(columns), queue_s)
        backward_s = self._backward(queue, known, moved, columns, plans)
        exposed_s = queue.rest_s() + (1 - self.model.cluster.overlap) * queue.hidden_s
        return Played(seconds=forward_s + backward_s + exposed_s + update_s, exposed_sync_s=exposed_s)

    def _backward(
        self, queue: Queue, known: Sequence[Known], moved: Sequence[_Moved], columns: Sequence[Column], plans: int
    ) -> Floats:
        """Compute between two events is one task: nothing happens inside it that another layer's could change."""
        taken_s = np.zeros(plans)
        compute_s = np.zeros(plans)
        admitting = set(queue.admitting.tolist())
        last = len(columns) - 1
        for position, number in enumerate(range(last, -1, -1)):
            for busy_s, axes in self._tasks(number, known[number], moved[number], columns[number]):
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

    def _tasks(self, number: int, timed: Known, moved: _Moved, rows: Column) -> Iterator[tuple[Floats, Ints | None]]:
        """A layer's backward in order: seconds, and the axes that it communicates along."""
        if timed.reduces and (reduce_s := timed.reduce_s[rows]).any():
            yield 0.5 * reduce_s, timed.statistics_axes[rows]
        yield timed.backward_s[rows], None
        if self._returning[number]:
            if (halo_s := timed.halo_s[rows]).any():
                yield (1 - self._lent[number]) * halo_s, timed.border_axes[rows]
            if moved.seconds.any():
                yield 0.5 * moved.seconds, moved.axes

    def _moved(self, number: int, columns: Sequence[Column]) -> _Moved:
        """All layout changes into a layer."""
        seconds, axes = np.zeros(1), np.zeros(1, dtype=np.int64)
        for producer, moves in self._into[number]:
            edge_s, edge_axes = moves.between(columns[producer], columns[number])
            seconds, axes = seconds + edge_s, axes | edge_axes
        return _Moved(seconds, axes)

    @cached_property
    def _tiers(self) -> Ints:
        """By mask, the widest tier that its axes cross: axes come from the widest tier inwards."""
        axes = self.model.cluster.mesh.axes
        return np.array([NO_TIER, *(axes[(mask & -mask).bit_length() - 1].tier for mask in range(1, 1 << len(axes)))])

    def _buckets(self, columns: Sequence[Column], plans: int, most_items: int) -> Buckets:
        """As partition/buckets.py fills them: in the order of backward, one open bucket per set of axes."""
        weights = self._gradients
        filled: dict[int, Ints] = {}  # by axes, per plan: items in the open bucket, and its number
        number: dict[int, Ints] = {}
        count = np.zeros(plans, dtype=np.int64)
        items = np.zeros((plans, len(weights) + 1), dtype=np.int64)
        ready = np.full((plans, len(weights) + 1), _NEVER)
        axes = np.zeros((plans, len(weights) + 1), dtype=np.int64)
        every = np.arange(plans)
        for layer, place in weights:
            known, column = self._layers[layer].known, columns[layer]
            masks, sizes = known.sync_axes[column], known.weight_items[place][column]
            for mask in np.unique(masks):
                if not mask:
                    continue
                rows = every if len(masks) == 1 else np.flatnonzero(masks == mask)
                size = sizes if len(sizes) == 1 else sizes[rows]
                here = filled.setdefault(int(mask), np.zeros(plans, dtype=np.int64))
                current = number.setdefault(int(mask), np.zeros(plans, dtype=np.int64))
                before = here[rows]
                fresh = (before == 0) | (before + size > most_items)
                new = rows[fresh]
                current[new] = count[new]
                count[new] += 1
                here[rows] = np.where(fresh, 0, before) + size
                into = current[rows]
                items[rows, into] += size
                ready[rows, into] = len(columns) - 1 - layer
                axes[rows, into] = mask
        most = max(1, int(count.max(initial=0)))
        items, ready, axes = items[:, :most], ready[:, :most], axes[:, :most]
        order = np.argsort(ready, axis=1, kind="stable")
        items, ready, axes = (np.take_along_axis(table, order, axis=1) for table in (items, ready, axes))
        lines = self.model.network.bucket_lines
        alone_s = np.where(items > 0, lines.latency_s[axes] + lines.s_per_byte[axes] * items * WEIGHT_BYTES, 0.0)
        return Buckets(ready=ready, alone_s=alone_s, tier=self._tiers[axes])

    @cached_property
    def _gradients(self) -> list[tuple[int, int]]:
        """Trained weights as backward comes to the last of their readers: that layer, the place among its weights."""
        seen: set[str] = set()
        listed = []
        for number, layer in enumerate(self.model.graph.layers):
            for place, weight in enumerate(layer.weights):
                if weight.name not in seen and weight.trained:
                    listed.append((number, place))
                seen.add(weight.name)
        return listed[::-1]
