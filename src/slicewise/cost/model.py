"""The cost of a plan: layers, and the edges between them.

Seconds come for many slicings at once (`layer_seconds`, `edge_seconds`: what the search needs); a plan's costs are the
same functions for one slicing each, with the bytes counted exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.borders import halo_seconds
from slicewise.cost.breakdown import Cost
from slicewise.cost.compute import AnalyticCompute, Share, shares
from slicewise.cost.network import Network
from slicewise.cost.training import PLAIN, WEIGHT_BYTES, Training
from slicewise.cost.transitions import transition_seconds
from slicewise.cost.volume import halo_items, move_items, statistics_items, sync_items
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import DIMS, Choices, Floats, Ints, Layouts, group_sizes, input_port, output_port
from slicewise.partition.layout import Slicing, layouts

STATISTICS_BYTES = 4  # means are merged in fp32, whatever the activations are


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSeconds:
    """What depends on a layer's slicing alone, one entry per choice."""

    forward_s: Floats
    backward_s: Floats
    update_s: Floats
    halo_s: Floats
    reduce_s: Floats
    sync_s: Floats
    memory_bytes: Ints
    transient_bytes: Ints

    @property
    def total_s(self) -> Floats:
        return self.forward_s + self.backward_s + self.update_s + self.halo_s + self.reduce_s + self.sync_s

    def rows(self, kept: Ints) -> "LayerSeconds":
        return LayerSeconds(**{item.name: getattr(self, item.name)[kept] for item in fields(self)})


@dataclass(frozen=True, eq=False)
class CostModel:
    """Prices layers and edges of `graph` on `cluster`, with analytic compute and alpha-beta links."""

    graph: LayerGraph
    cluster: Cluster
    training: Training = PLAIN
    name: str = "analytic"
    coarsens: ClassVar[bool] = True  # whether merging inner axes gives a lower bound (search/coarse.py)

    @cached_property
    def network(self) -> Network:
        return Network(self.cluster)

    @cached_property
    def compute(self) -> AnalyticCompute:
        return AnalyticCompute(self.cluster, self.training)

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """A number per layer: layers with the same number cost the same, whatever their names."""
        numbers: dict[object, int] = {}
        return tuple(numbers.setdefault(self._likeness(layer), len(numbers)) for layer in self.graph)

    def layer_seconds(self, layer: Layer, choices: Choices) -> LayerSeconds:
        part = shares(layer, choices)
        zero = np.zeros(len(choices))
        trains = layer.name in self.graph.gradients
        item_bytes = self.training.item_bytes
        halo_s = halo_seconds(layer, choices, self.network, item_bytes) if layer.windows else zero
        return LayerSeconds(
            forward_s=self.compute.forward_s(layer, part),
            backward_s=self.compute.backward_s(layer, part, self.passes(layer)) if trains else zero,
            update_s=self.compute.update_s(layer, part),
            halo_s=self._exchanges(layer) * halo_s,
            reduce_s=self._reduce_s(layer, choices, trains) if layer.statistics else zero,
            sync_s=self._sync_s(layer, choices, part) if layer.weights else zero,
            memory_bytes=self._memory_bytes(layer, part),
            transient_bytes=(sum(part.inputs, part.output)) * item_bytes,
        )

    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """[before, after] -> the layout change on one edge: values forward, gradients backward."""
        producer = self.graph[consumer.inputs[slot]]
        given, wanted = output_port(producer, before), input_port(consumer, slot, after)
        seconds = self._moves(producer.shape, given.value, wanted.value)
        if self.returns_gradient(consumer, slot):
            seconds = seconds + self._moves(producer.shape, wanted.gradient, given.gradient).T
        return seconds

    def pair_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """The diagonal of `edge_seconds`: row by row the same edge between two choices, most of them at rest."""
        producer = self.graph[consumer.inputs[slot]]
        given, wanted = output_port(producer, before), input_port(consumer, slot, after)
        seconds = self._paired_moves(producer.shape, given.value, wanted.value)
        if self.returns_gradient(consumer, slot):
            seconds = seconds + self._paired_moves(producer.shape, wanted.gradient, given.gradient)
        return seconds

    def layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        """Everything that depends on this layer's slicing alone."""
        mesh = self.cluster.mesh
        timed = self.layer_seconds(layer, Choices.of([slicing], mesh))
        trains = layer.name in self.graph.gradients
        forward_items, backward_items = statistics_items(layer, slicing, mesh)
        return Cost(
            forward_s=float(timed.forward_s[0]),
            backward_s=float(timed.backward_s[0]),
            update_s=float(timed.update_s[0]),
            halo_s=float(timed.halo_s[0]),
            halo_bytes=self._exchanges(layer) * halo_items(layer, slicing, mesh) * self.training.item_bytes,
            reduce_s=float(timed.reduce_s[0]),
            reduce_bytes=(forward_items + trains * backward_items) * STATISTICS_BYTES,
            sync_s=float(timed.sync_s[0]),
            sync_bytes=sync_items(layer, layouts(layer, slicing), mesh) * WEIGHT_BYTES,
            memory_bytes=int(timed.memory_bytes[0]),
            transient_bytes=int(timed.transient_bytes[0]),
        )

    def edge_cost(self, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> Cost:
        """The layout change on one edge: values forward, gradients backward."""
        mesh = self.cluster.mesh
        producer = self.graph[consumer.inputs[slot]]
        source, target = layouts(producer, before), layouts(consumer, after)
        items = move_items(producer.shape, source.output, target.inputs[slot], mesh)
        if self.returns_gradient(consumer, slot):
            items += move_items(producer.shape, target.input_gradients[slot], source.output_gradient, mesh)
        seconds = self.pair_seconds(consumer, slot, Choices.of([before], mesh), Choices.of([after], mesh))
        return Cost(transfer_s=float(seconds[0]), transfer_bytes=items * self.training.item_bytes)

    def plan_costs(self, slicings: Mapping[str, Slicing]) -> dict[str, Cost]:
        """Per layer, with the edges into it. Equal layers with equal slicings around them are priced once."""
        index, known = self.graph.index, self._known_costs
        costs = {}
        for layer, alike in zip(self.graph, self.alike, strict=True):
            around = tuple((self.alike[index[source]], slicings[source]) for source in layer.inputs)
            key = (alike, slicings[layer.name], around)
            if key not in known:
                edges = (
                    self.edge_cost(layer, slot, slicings[source], slicings[layer.name])
                    for slot, source in enumerate(layer.inputs)
                )
                known[key] = sum(edges, self.layer_cost(layer, slicings[layer.name]))
            costs[layer.name] = known[key]
        return costs

    @cached_property
    def _known_costs(self) -> dict[object, Cost]:
        return {}

    def returns_gradient(self, consumer: Layer, slot: int) -> bool:
        """Whether a gradient goes back along an edge: its producer wants one, and its consumer has one to give."""
        return {consumer.name, consumer.inputs[slot]} <= self.graph.gradients

    def wants_input_gradient(self, layer: Layer) -> bool:
        return any(self.returns_gradient(layer, slot) for slot in range(len(layer.inputs)))

    def _exchanges(self, layer: Layer) -> int:
        """Borders are borrowed of the first input, and their gradients given back."""
        return 1 + (bool(layer.inputs) and self.returns_gradient(layer, 0))

    def passes(self, layer: Layer) -> int:
        """A product has a gradient to compute for what it reads and one for its factor; other layers make one pass."""
        if not layer.kind.has(Trait.PRODUCT):
            return 1
        operand, *computed = (self.returns_gradient(layer, slot) for slot in range(len(layer.inputs)))
        return int(operand) + int(any(computed) or any(weight.trained for weight in layer.weights))

    def _moves(self, shape: tuple[int, ...], source: Layouts, target: Layouts) -> Floats:
        """Slicings may share a layout: price each once and spread it."""
        (sources, source_index), (targets, target_index) = source.distinct, target.distinct
        seconds = transition_seconds(shape, sources, targets, self.network, self.training.item_bytes)
        if target_index is not None:
            seconds = seconds[:, target_index]
        return seconds if source_index is None else seconds[source_index]

    def _paired_moves(self, shape: tuple[int, ...], source: Layouts, target: Layouts) -> Floats:
        seconds = np.zeros(len(source))
        moving = np.flatnonzero((source.by_dim != target.by_dim).any(axis=1) | (source.partial != target.partial))
        if len(moving):
            seconds[moving] = np.diagonal(self._moves(shape, source.rows(moving), target.rows(moving)))
        return seconds

    def _memory_bytes(self, layer: Layer, part: Share) -> Ints:
        """Weights, their gradients and optimizer state; what autograd keeps for backward.

        A narrow dtype adds a copy of the weights; what is recomputed is not kept.
        """
        training = self.training
        copies = training.item_bytes if training.item_bytes < WEIGHT_BYTES else 0
        kept = np.zeros_like(part.output)
        for weight, items in zip(layer.weights, part.weights, strict=True):
            if not weight.again:
                kept = kept + items * (WEIGHT_BYTES * (2 + training.state_items if weight.trained else 1) + copies)
        if layer.name not in self.graph.gradients:
            return kept
        if layer.kind.has(Trait.KEEPS_INPUT) and not training.recompute:
            kept = kept + part.inputs[0] * training.item_bytes
        elif layer.name in self._keeps_output:
            kept = kept + part.output * training.item_bytes
        return kept

    @cached_property
    def _keeps_output(self) -> frozenset[str]:
        """Layers whose output backward needs, and no reader keeps as its own input.

        Functions of one input, in place or not. With recompute instead the products, from which the layers up to the
        next product are computed again.
        """
        readers: dict[str, list[Layer]] = {}
        for layer in self.graph:
            for source in layer.inputs:
                readers.setdefault(source, []).append(layer)

        def read(name: str, trait: Trait) -> bool:
            return any(
                read(reader.name, trait) if reader.kind.has(Trait.FREE) else reader.kind.has(trait)
                for reader in readers.get(name, [])
            )

        if self.training.recompute:
            return frozenset(
                layer.name for layer in self.graph if layer.kind.has(Trait.PRODUCT) and read(layer.name, Trait(0))
            )
        return frozenset(
            layer.name
            for layer in self.graph
            if layer.kind is Kind.ELEMENTWISE and len(layer.inputs) == 1 and not read(layer.name, Trait.KEEPS_INPUT)
        )

    def _reduce_s(self, layer: Layer, choices: Choices, trains: bool) -> Floats:
        """A norm's mean and deviation are gathered forward; backward sums two such vectors."""
        axes = choices.axes_of(layer.statistics)
        ranks = group_sizes(axes, choices.mesh)
        items = 2 * np.ones(len(choices))
        for letter, size in zip(layer.dims, layer.statistics_shape, strict=True):
            sliced = letter in DIMS and letter not in layer.statistics
            items *= -(-size // choices.degrees(Dim(letter))) if sliced else size
        gather, reduce = self.network.all_gather_lines, self.network.all_reduce_lines
        message = items * STATISTICS_BYTES
        seconds = gather.latency_s[axes] + gather.s_per_byte[axes] * message * ranks
        if trains:
            seconds = seconds + reduce.latency_s[axes] + reduce.s_per_byte[axes] * message
        return seconds

    def _sync_s(self, layer: Layer, choices: Choices, part: Share) -> Floats:
        """The all-reduce of the weights' gradients: one latency, the weights share a bucket."""
        sharding = set("".join(weight.dims for weight in layer.weights))
        axes = choices.axes_of([dim for dim in Dim if dim not in sharding])
        summed = [items for weight, items in zip(layer.weights, part.weights, strict=True) if weight.updated]
        if not summed:
            return np.zeros(len(choices))
        lines = self.network.all_reduce_lines
        return lines.latency_s[axes] + lines.s_per_byte[axes] * sum(summed) * WEIGHT_BYTES

    def _likeness(self, layer: Layer) -> object:
        return (
            layer.kind,
            layer.input_shapes,
            layer.input_dims,
            layer.shape,
            layer.dims,
            tuple((weight.shape, weight.dims, weight.trained, weight.shared, weight.again) for weight in layer.weights),
            tuple((buffer.shape, buffer.dims) for buffer in layer.buffers),
            tuple(layer.windows.items()),
            layer.groups,
            layer.statistics,
            layer.chunk,
            layer.name in self._keeps_output,
            layer.name in self.graph.gradients,
            tuple(self.returns_gradient(layer, slot) for slot in range(len(layer.inputs))),
        )
