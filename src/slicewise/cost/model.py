"""The cost of a plan: layers, and the edges between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.breakdown import Cost
from slicewise.cost.compute import ITEM_BYTES, AnalyticCompute, Shard, shard
from slicewise.cost.exchange import received
from slicewise.cost.network import Network
from slicewise.graph.layer import Kind, Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.halo import halo
from slicewise.partition.layout import (
    REPLICATE,
    LayerLayouts,
    Layout,
    Slicing,
    layouts,
    partial_axes,
    replace_axes,
    statistics_axes,
)
from slicewise.partition.layout import Shard as ShardPlacement
from slicewise.partition.parts import boxes, held_items, largest
from slicewise.partition.steps import Op, Step, steps


@dataclass(frozen=True, slots=True)
class Traffic:
    """One collective: how long, and how many bytes all devices together send."""

    seconds: float
    sent_bytes: int


@dataclass(frozen=True)
class CostModel:
    """Prices layers and edges of `graph` on `cluster`, with analytic compute and alpha-beta links."""

    graph: LayerGraph
    cluster: Cluster

    def __hash__(self) -> int:
        return id(self)

    @cached_property
    def network(self) -> Network:
        return Network(self.cluster)

    @cached_property
    def compute(self) -> AnalyticCompute:
        return AnalyticCompute(self.cluster)

    @cached_property
    def _layer_costs(self) -> dict[tuple[str, Slicing], Cost]:
        return {}

    def layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        """Everything that depends on this layer's slicing alone; baselines, tables and plans ask for the same ones."""
        key = (layer.name, slicing)
        if key not in self._layer_costs:
            self._layer_costs[key] = self._layer_cost(layer, slicing)
        return self._layer_costs[key]

    def _layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        placed = layouts(layer, slicing)
        part = shard(layer, slicing, self.cluster.mesh, placed)
        wants_gradient = self.wants_input_gradient(layer)
        trains = layer.name in self.graph.gradients
        halo_traffic = self.halo_traffic(layer, slicing)
        passes = 1 + wants_gradient
        reduce_traffic = self.statistics_traffic(layer, slicing)[: 1 + trains]
        sync = [self.sync_traffic(layer, index, placed) for index in range(len(layer.weights))]
        return Cost(
            forward_s=self.compute.forward_s(layer, part),
            backward_s=self.compute.backward_s(layer, part, wants_gradient) if trains else 0.0,
            update_s=self.compute.update_s(part),
            halo_s=passes * halo_traffic.seconds,
            halo_bytes=passes * halo_traffic.sent_bytes,
            reduce_s=sum(traffic.seconds for traffic in reduce_traffic),
            reduce_bytes=sum(traffic.sent_bytes for traffic in reduce_traffic),
            sync_s=sum(traffic.seconds for traffic in sync),
            sync_bytes=sum(traffic.sent_bytes for traffic in sync),
            memory_bytes=self.memory_bytes(layer, part),
        )

    def edge_cost(self, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> Cost:
        """The layout change on one edge: values forward, gradients backward."""
        producer = self.graph[consumer.inputs[slot]]
        source, target = layouts(producer, before), layouts(consumer, after)
        forward = self.move(producer.shape, source.output, target.inputs[slot])
        if producer.name not in self.graph.gradients:
            return Cost(transfer_s=forward.seconds, transfer_bytes=forward.sent_bytes)
        backward = self.move(producer.shape, target.input_gradients[slot], source.output_gradient)
        return Cost(
            transfer_s=forward.seconds + backward.seconds,
            transfer_bytes=forward.sent_bytes + backward.sent_bytes,
        )

    def plan_costs(self, slicings: Mapping[str, Slicing]) -> dict[str, Cost]:
        """Per layer, with the edges into it."""
        return {
            layer.name: sum(
                (
                    self.edge_cost(layer, slot, slicings[source], slicings[layer.name])
                    for slot, source in enumerate(layer.inputs)
                ),
                self.layer_cost(layer, slicings[layer.name]),
            )
            for layer in self.graph
        }

    def wants_input_gradient(self, layer: Layer) -> bool:
        return any(source in self.graph.gradients for source in layer.inputs)

    def memory_bytes(self, layer: Layer, part: Shard) -> int:
        """Weights, their gradients, and the output kept for backward (in-place and copy-free layers keep none)."""
        kept = (
            0 if layer.options.get("in_place") or layer.kind in (Kind.FORK, Kind.OUTPUT, Kind.FLATTEN) else part.output
        )
        return ITEM_BYTES * (2 * sum(part.weights) + kept)

    def move(self, shape: tuple[int, ...], source: Layout, target: Layout) -> Traffic:
        """All steps from one layout to another."""
        parts = [self.step(shape, step) for step in steps(shape, source, target, self.cluster.mesh)]
        return Traffic(sum(part.seconds for part in parts), sum(part.sent_bytes for part in parts))

    @lru_cache(maxsize=65536)  # noqa: B019
    def step(self, shape: tuple[int, ...], step: Step) -> Traffic:
        mesh = self.cluster.mesh
        if step.op is Op.LOCAL:
            return Traffic(0.0, 0)
        if step.op is Op.ALL_TO_ALL:
            summed = tuple(axis for axis in partial_axes(step.source) if isinstance(step.target[axis], ShardPlacement))
            return self.all_to_all(step.axes, shape, step.source, boxes(shape, step.target, mesh), summed)
        message_bytes = prod(largest(shape, step.target, mesh)) * ITEM_BYTES
        line = self.network.all_reduce(step.axes) if step.op is Op.ALL_REDUCE else self.network.all_gather(step.axes)
        return Traffic(
            line.seconds(message_bytes), self._ring(step.op, step.axes, held_items(shape, step.target, mesh))
        )

    def all_to_all(
        self,
        axes: tuple[int, ...],
        shape: tuple[int, ...],
        layout: Layout,
        needed: tuple[np.ndarray, np.ndarray],
        summed: tuple[int, ...] = (),
    ) -> Traffic:
        tiers = len(self.cluster.tiers)
        items = received(shape, layout, needed, self.cluster.mesh, tiers, summed)
        rates = np.array([self.network.all_to_all_s_per_byte(tier) for tier in range(tiers)])
        slowest_s = float((items * rates[:, None]).sum(axis=0).max()) * ITEM_BYTES
        return Traffic(self.network.all_to_all_latency_s(axes) + slowest_s, int(items.sum()) * ITEM_BYTES)

    def halo_traffic(self, layer: Layer, slicing: Slicing) -> Traffic:
        """One exchange, forward; backward sends the same regions back."""
        exchange = halo(layer, slicing, self.cluster.mesh)
        if exchange is None:
            return Traffic(0.0, 0)
        layout = layouts(layer, slicing).inputs[0]
        return self.all_to_all(exchange.axes, layer.input_shapes[0], layout, (exchange.start, exchange.stop))

    def statistics_traffic(self, layer: Layer, slicing: Slicing) -> list[Traffic]:
        """A norm's mean and deviation are gathered forward; backward sums two such vectors."""
        axes = statistics_axes(layer, slicing)
        if not axes:
            return []
        ranks = self.cluster.mesh.group_size(axes)
        kept = tuple(
            1 if letter in layer.statistics else size for letter, size in zip(layer.dims, layer.shape, strict=True)
        )
        layout = replace_axes(layouts(layer, slicing).output, axes, REPLICATE)
        items, all_items = (
            2 * prod(largest(kept, layout, self.cluster.mesh)),
            2 * held_items(kept, layout, self.cluster.mesh),
        )
        return [
            Traffic(
                self.network.all_gather(axes).seconds(items * ranks * ITEM_BYTES),
                self._ring(Op.ALL_GATHER, axes, all_items * ranks),
            ),
            Traffic(
                self.network.all_reduce(axes).seconds(items * ITEM_BYTES),
                self._ring(Op.ALL_REDUCE, axes, all_items),
            ),
        ]

    def sync_traffic(self, layer: Layer, index: int, placed: LayerLayouts) -> Traffic:
        """The all-reduce of one weight's gradient; only the first weight pays latency, the others share its bucket."""
        if not placed.sync_axes or not layer.weights[index].trained:
            return Traffic(0.0, 0)
        shape, layout = layer.weights[index].shape, placed.weights[index]
        message_bytes = prod(largest(shape, layout, self.cluster.mesh)) * ITEM_BYTES
        line = self.network.all_reduce(placed.sync_axes)
        seconds = message_bytes * line.s_per_byte + (line.latency_s if index == 0 else 0.0)
        all_items = held_items(shape, layout, self.cluster.mesh)
        return Traffic(seconds, self._ring(Op.ALL_REDUCE, placed.sync_axes, all_items))

    def _ring(self, op: Op, axes: tuple[int, ...], items_of_all_ranks: int) -> int:
        """Bytes that all groups together send: each rank (p-1)/p of its message, twice for an all-reduce."""
        ranks = self.cluster.mesh.group_size(axes)
        rounds = 2 if op is Op.ALL_REDUCE else 1
        return rounds * (ranks - 1) * items_of_all_ranks * ITEM_BYTES // ranks
