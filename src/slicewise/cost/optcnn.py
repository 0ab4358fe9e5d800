"""The layer-wise paper's own assumptions (Jia et al., ICML 2018), for standing beside its tables.

    t_C   compute of the largest part, measured (`layer_times`) or as in our own model; no update, no statistics between
          devices
    t_X   all bytes that devices need and do not have, over the bandwidth of the tier they cross: one transfer after
          the other at full bandwidth, no latency; borders of windows are part of it, and gradients take the same way
          back
    t_S   a parameter server per layer, reached through one server per node: along each tier every copy but the
          server's own is pushed one after the other, while weights are pulled the other way over the same links

Only output dims are sliced, into equal parts, and an axis that slices nothing leaves its other devices idle: they hold
nothing and compute nothing. Which readings of the paper these are, and which of its bars decide for them, is in
docs/optcnn.md.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from slicewise.cost.breakdown import Cost, LayerSeconds
from slicewise.cost.compute import AnalyticCompute, Compute, shares
from slicewise.cost.measured import MeasuredCompute
from slicewise.cost.model import CostModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.choices import DIMS, Choices, Floats, Ints, axes_in, group_sizes, mask_of, outer_masks
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import SPACES, Space
from slicewise.partition.parts import intervals


@dataclass(frozen=True, eq=False)
class PaperModel(CostModel):
    """What the paper says; how long transfers and servers take is for those who read it (benchmarks/optcnn)."""

    name: ClassVar[str] = "optcnn"
    assumes: ClassVar[str] = "the layer-wise paper's assumptions"
    space: ClassVar[Space] = SPACES["optcnn"]
    overlaps: ClassVar[bool] = False
    coarsens: ClassVar[bool] = False
    pipelines: ClassVar[bool] = False
    recosted: ClassVar[bool] = False
    timed: ClassVar[bool] = True

    @cached_property
    def compute(self) -> Compute:
        """t_C: measured where somebody did, as in the paper."""
        if self.cluster.times:
            return MeasuredCompute(self.cluster, self.training)
        return AnalyticCompute(self.cluster, self.training)

    @abstractmethod
    def transfer_s(self, items: Floats) -> Floats:
        """t_X of what each rank receives over each tier, [tier, before, after, rank] -> [before, after]."""

    @abstractmethod
    def server_s(self, layer: Layer, choices: Choices) -> Floats:
        """t_S of a layer's weights, for every choice."""

    def layer_seconds(self, layer: Layer, choices: Choices) -> LayerSeconds:
        work = self.device_work(layer, shares(layer, choices))
        return LayerSeconds.of(**work, sync_s=self.server_s(layer, choices))

    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        seconds = self.transfer_s(self._received(consumer, slot, before, after))
        return seconds * (2 if self.returns_gradient(consumer, slot) else 1)

    def pair_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        return np.diagonal(self.edge_seconds(consumer, slot, before, after))

    def layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        choices = Choices.of([slicing], self.cluster.mesh)
        sent = int(self.server_bytes(layer, choices)[0])
        return replace(self.layer_seconds(layer, choices).cost(), sync_bytes=sent)

    def edge_cost(self, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> Cost:
        mesh = self.cluster.mesh
        one, other = Choices.of([before], mesh), Choices.of([after], mesh)
        items = int(self._received(consumer, slot, one, other).sum())
        passes = 2 if self.returns_gradient(consumer, slot) else 1
        return Cost(
            transfer_s=float(self.edge_seconds(consumer, slot, one, other)[0, 0]),
            transfer_bytes=passes * items * self.training.item_bytes,
        )

    def replicas_mask(self, layer: Layer, choices: Choices) -> Ints:
        """The axes along which devices hold the same weights and work on different data."""
        sharding = set("".join(weight.dims for weight in layer.weights))
        return choices.axes_of([dim for dim in Dim if dim not in sharding])

    def server_bytes(self, layer: Layer, choices: Choices) -> Floats:
        """Every replica pushes and pulls, as the paper counts; weights that only one device holds stay there."""
        replicas = group_sizes(self.replicas_mask(layer, choices), choices.mesh)
        return np.where(replicas > 1, 2.0 * replicas * _weight_bytes(layer), 0.0)

    @cached_property
    def s_per_byte(self) -> Floats:
        """Per tier, at the link's full bandwidth."""
        return np.array([1 / tier.bytes_per_s for tier in self.cluster.tiers])

    def _received(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """Items over each tier, [tier, before, after, rank]."""
        producer, tiers = self.graph[consumer.inputs[slot]], range(len(self.cluster.tiers))
        dims, shape = producer.dims, producer.shape
        needed = np.ones((1, len(after), before.mesh.devices))
        held = [np.ones((len(before), len(after), before.mesh.devices)) for _ in tiers]
        for position, (letter, extent) in enumerate(zip(dims, shape, strict=True)):
            wanted = self._wanted(consumer, slot, position, after)
            needed = needed * (wanted[1] - wanted[0])[None]
            for tier in tiers:
                start, stop = self._own(letter, extent, before, tier)
                common = np.minimum(stop[:, None], wanted[1]) - np.maximum(start[:, None], wanted[0])
                held[tier] *= np.maximum(common, 0)
        needed = needed * self._active(after, len(tiers) - 1)[None]
        rows, outside = [], np.broadcast_to(needed, held[0].shape)
        for tier in tiers:
            inside = held[tier] * self._active(before, tier)[:, None] * (needed > 0)
            rows.append(outside - inside)
            outside = inside
        return np.stack(rows)

    def _wanted(self, consumer: Layer, slot: int, position: int, after: Choices) -> tuple[Ints, Ints]:
        """Per choice and rank, the interval of one input dim that is read."""
        letter, extent = consumer.input_dims[slot][position], consumer.input_shapes[slot][position]
        if letter not in DIMS or letter not in consumer.dims:
            whole = np.zeros((len(after), after.mesh.devices), dtype=np.int64)
            return whole, whole + extent
        window = consumer.windows.get(Dim(letter)) if slot == 0 else None
        window = None if window and window.wraps else window  # no convolution: the paper has no rolls
        output_extent = consumer.shape[consumer.dims.index(letter)]
        start, stop = self._own(letter, output_extent if window else extent, after, len(self.cluster.tiers) - 1)
        if window:
            start, stop = window.needs(start, stop)
            start, stop = np.clip(start, 0, extent), np.clip(stop, 0, extent)
        return start, stop

    def _own(self, letter: str, extent: int, choices: Choices, tier: int) -> tuple[Ints, Ints]:
        """Per choice and rank, the interval of a dim held by the devices that share tiers 0 .. `tier`."""
        mesh = choices.mesh
        masks = choices.axes_of([Dim(letter)]) if letter in DIMS else np.zeros(len(choices), dtype=np.int64)
        occurring, index = np.unique(masks & self._outer_masks[tier], return_inverse=True)
        parts = [intervals(extent, axes_in(int(mask)), mesh) for mask in occurring]
        return np.stack([start for start, _ in parts])[index], np.stack([stop for _, stop in parts])[index]

    def _active(self, choices: Choices, tier: int) -> Floats:
        """Whether a rank's neighbours up to `tier` work at all: the first along every axis that slices nothing."""
        mesh = choices.mesh
        idle = ~choices.axes_of(Dim) & self._outer_masks[tier]
        others = mesh.coordinates[:, : len(mesh.axes)] > 0  # one device has no axes
        bits = 1 << np.arange(len(mesh.axes), dtype=np.int64)
        active: Floats = ((idle[:, None] & (others @ bits)[None, :]) == 0).astype(float)
        return active

    @cached_property
    def _outer_masks(self) -> list[int]:
        return outer_masks(self.cluster.mesh, len(self.cluster.tiers))


def all_in_turn(model: PaperModel, items: Floats) -> Floats:
    """t_X: one transfer after the other."""
    seconds: Floats = np.tensordot(model.s_per_byte, items.sum(axis=-1), axes=1) * model.training.item_bytes
    return seconds


def server_per_node(model: PaperModel, layer: Layer, choices: Choices) -> Floats:
    """t_S: sum over tiers of (replicas along the tier - 1) * weight bytes / bandwidth."""
    replicas, mesh = model.replicas_mask(layer, choices), choices.mesh
    pushes = [
        (group_sizes(replicas & mask_of([n for n, axis in enumerate(mesh.axes) if axis.tier == tier]), mesh) - 1)
        for tier in range(len(model.cluster.tiers))
    ]
    seconds: Floats = model.s_per_byte @ np.array(pushes) * _weight_bytes(layer)
    return seconds


@final
class OptCnnModel(PaperModel):
    """The reading that agrees best with the paper's bars."""

    transfer_s = all_in_turn
    server_s = server_per_node


def _weight_bytes(layer: Layer) -> int:
    return sum(weight.size for weight in layer.weights if weight.updated) * WEIGHT_BYTES
