"""What our own cost models share: alpha-beta links, gradients that travel beside backward (docs/cost.md).

They differ in what a layer takes on its device: `analytic.py`, `calibrated.py`, `measured.py`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from slicewise.cost.borders import halo_seconds
from slicewise.cost.breakdown import Cost, LayerSeconds
from slicewise.cost.compute import Share, shares
from slicewise.cost.model import CostModel
from slicewise.cost.moves import Moves
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.cost.volume import halo_items, move_items, passed_items, statistics_items, sync_items
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import KEYS, Layer
from slicewise.partition.choices import DIMS, Choices, Floats, Layouts, group_sizes, input_port, output_port
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.legal import SPACES, Space

STATISTICS_BYTES = 4  # means are merged in fp32, whatever the activations are


@dataclass(frozen=True, eq=False)
class OwnModel(CostModel):
    """Prices exactly what the runtime does."""

    space: ClassVar[Space] = SPACES["full"]
    overlaps: ClassVar[bool] = True
    pipelines: ClassVar[bool] = True

    def layer_seconds(self, layer: Layer, choices: Choices) -> LayerSeconds:
        part = shares(layer, choices)
        zero = np.zeros(len(choices))
        trains = layer.name in self.graph.gradients
        work = self.device_work(layer, part)
        if layer.passes_keys:
            halo_s = self._round_s(layer, choices, part, work["forward_s"] + work["backward_s"])
        elif layer.windows:
            borders_s = halo_seconds(layer, choices, self.network, self.item_bytes(layer))
            halo_s = self._exchanges(layer) * borders_s
        else:
            halo_s = zero
        return LayerSeconds(
            **work,
            update_s=self.compute.update_s(layer, part),
            halo_s=halo_s,
            reduce_s=self._reduce_s(layer, choices, trains) if layer.statistics else zero,
            sync_s=self._sync_s(layer, choices, part) if layer.weights else zero,
        )

    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        producer = self.graph[consumer.inputs[slot]]
        given, wanted = output_port(producer, before), input_port(consumer, slot, after)
        moves = self._moves[self.item_bytes(producer)]
        seconds = moves.seconds(producer.shape, given.value, wanted.value)
        if self.returns_gradient(consumer, slot):
            seconds += moves.seconds(producer.shape, wanted.gradient, given.gradient).T
        return seconds

    def edge_likeness(self, consumer: Layer, slot: int) -> object:
        """What layers compute has no part in it, only how the tensor between them lies."""
        producer = self.graph[consumer.inputs[slot]]
        given = producer.shape, producer.dims, producer.kind is Kind.FORK, producer.own_bytes
        return given, consumer.input_dims[slot], self.returns_gradient(consumer, slot)

    def pair_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """Most pairs are at rest: only the others are priced."""
        producer = self.graph[consumer.inputs[slot]]
        given, wanted = output_port(producer, before), input_port(consumer, slot, after)
        seconds = self._paired_moves(producer, given.value, wanted.value)
        if self.returns_gradient(consumer, slot):
            seconds = seconds + self._paired_moves(producer, wanted.gradient, given.gradient)
        return seconds

    def layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        mesh = self.cluster.mesh
        timed = self.layer_seconds(layer, Choices.of([slicing], mesh))
        trains = layer.name in self.graph.gradients
        forward_items, backward_items = statistics_items(layer, slicing, mesh)
        if layer.passes_keys:
            lent_items = self.key_rounds(layer) * passed_items(layer, slicing, mesh)
        else:
            lent_items = self._exchanges(layer) * halo_items(layer, slicing, mesh)
        return replace(
            timed.cost(),
            halo_bytes=lent_items * self.item_bytes(layer),
            reduce_bytes=(forward_items + trains * backward_items) * STATISTICS_BYTES,
            sync_bytes=sync_items(layer, layouts(layer, slicing), mesh) * WEIGHT_BYTES,
        )

    def edge_cost(self, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> Cost:
        mesh = self.cluster.mesh
        producer = self.graph[consumer.inputs[slot]]
        source, target = layouts(producer, before), layouts(consumer, after)
        items = move_items(producer.shape, source.output, target.inputs[slot], mesh)
        if self.returns_gradient(consumer, slot):
            items += move_items(producer.shape, target.input_gradients[slot], source.output_gradient, mesh)
        seconds = self.pair_seconds(consumer, slot, Choices.of([before], mesh), Choices.of([after], mesh))
        return Cost(transfer_s=float(seconds[0]), transfer_bytes=items * self.item_bytes(producer))

    def _round_s(self, layer: Layer, choices: Choices, part: Share, compute_s: Floats) -> Floats:
        """Keys and values passed round: what of every hop the compute on the part at hand does not hide.

        p parts of the keys are computed with and p - 1 are received, in each of the r rounds:

            (p - 1) max(0, r hop - overlap compute / p)
        """
        network, axes = self.network, choices.axes_of([Dim.Q])
        parts = group_sizes(axes, choices.mesh)
        items = sum(part.inputs[slot] for slot in KEYS)
        hop_s = network.all_to_all_latencies[axes] + network.hop_rates[axes] * items * self.training.item_bytes
        waited_s: Floats = self.key_rounds(layer) * hop_s - self.cluster.overlap * compute_s / parts
        exposed_s: Floats = np.maximum(waited_s, 0.0) * (parts - 1.0)
        return exposed_s

    def _exchanges(self, layer: Layer) -> int:
        """Borders are borrowed of the first input, and their gradients given back."""
        return 1 + (bool(layer.inputs) and self.returns_gradient(layer, 0))

    @cached_property
    def _moves(self) -> dict[int, Moves]:
        """By the bytes of an item."""
        return {size: Moves(self.network, size) for size in {self.item_bytes(layer) for layer in self.graph}}

    def _paired_moves(self, producer: Layer, source: Layouts, target: Layouts) -> Floats:
        seconds = np.zeros(len(source))
        moving = np.flatnonzero((source.by_dim != target.by_dim).any(axis=1) | (source.partial != target.partial))
        if len(moving):
            moves, given, wanted = self._moves[self.item_bytes(producer)], source.rows(moving), target.rows(moving)
            seconds[moving] = np.diagonal(moves.seconds(producer.shape, given, wanted))
        return seconds

    def _reduce_s(self, layer: Layer, choices: Choices, trains: bool) -> Floats:
        """A norm's mean and deviation are gathered forward, and two such vectors summed backward; attention has one."""
        axes = choices.axes_of(layer.statistics)
        ranks = group_sizes(axes, choices.mesh)
        items = layer.statistics_values * np.ones(len(choices))
        for letter, size in zip(layer.dims, layer.statistics_shape, strict=True):
            sliced = letter in DIMS and letter not in layer.statistics
            items *= -(-size // choices.degrees(Dim(letter))) if sliced else size
        gather, reduce = self.network.all_gather_lines, self.network.all_reduce_lines
        message = items * STATISTICS_BYTES
        seconds = gather.latency_s[axes] + gather.s_per_byte[axes] * message * ranks
        if trains:
            seconds = seconds + reduce.latency_s[axes] + reduce.s_per_byte[axes] * message
        return seconds

    def amortised_sync_s(self, layer: Layer, choices: Choices) -> Floats:
        """The share of a bucket's latency that a layer's gradients fill, in place of one latency each."""
        return self._sync_s(layer, choices, shares(layer, choices), bucketed=True)

    def _sync_s(self, layer: Layer, choices: Choices, part: Share, *, bucketed: bool = False) -> Floats:
        """The all-reduce of the weights' gradients: one latency, the weights share a bucket."""
        sharding = set("".join(weight.dims for weight in layer.weights))
        axes = choices.axes_of([dim for dim in Dim if dim not in sharding])
        summed = [items for weight, items in zip(layer.weights, part.weights, strict=True) if weight.updated]
        if not summed:
            return np.zeros(len(choices))
        lines, items = self.network.bucket_lines, sum(summed)
        share = np.minimum(1.0, items / self.training.bucket_items) if bucketed else 1.0
        return lines.latency_s[axes] * share + lines.s_per_byte[axes] * items * WEIGHT_BYTES
