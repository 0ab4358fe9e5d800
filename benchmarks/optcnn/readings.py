"""Other readings of the paper's two communication terms, to see which its bars speak for.

The paper takes t_X from the bytes to be moved and the bandwidth between devices, and t_S from a parameter server per
layer; whether transfers wait for each other, and where the servers are, it does not say.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchmarks.optcnn.paper import ONE_NVLINK
from benchmarks.optcnn.predicting import PAPERS, Side
from slicewise.cluster.cluster import load_cluster
from slicewise.cost.model import LayerSeconds
from slicewise.cost.optcnn import OptCnnModel
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats, axes_in


@dataclass(frozen=True, eq=False)
class DevicesAtOnce(OptCnnModel):
    """t_X: devices receive at the same time; the one that lacks most is waited for."""

    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        items = self._received(self.graph[consumer.inputs[slot]], consumer, slot, before, after)
        slowest: Floats = np.tensordot(self._s_per_byte, items, axes=1).max(axis=-1) * self.training.item_bytes
        return slowest * (2 if self.returns_gradient(consumer, slot) else 1)


@dataclass(frozen=True, eq=False)
class NodesAtOnce(OptCnnModel):
    """t_X: the devices below a link receive in turn, different links at the same time."""

    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        items = self._received(self.graph[consumer.inputs[slot]], consumer, slot, before, after)
        seconds = np.zeros(items.shape[1:3])
        for tier, received in enumerate(items):
            below = prod(inner.size for inner in self.cluster.tiers[tier + 1 :])
            busiest = received.reshape(*received.shape[:2], -1, below).sum(axis=-1).max(axis=-1)
            seconds += busiest * self._s_per_byte[tier] * self.training.item_bytes
        return seconds * (2 if self.returns_gradient(consumer, slot) else 1)


@dataclass(frozen=True, eq=False)
class OneServer(OptCnnModel):
    """t_S: all 2 * replicas * weight bytes over one link, the slowest between the replicas."""

    def layer_seconds(self, layer: Layer, choices: Choices) -> LayerSeconds:
        mesh, innermost = self.cluster.mesh, len(self.cluster.tiers) - 1
        tiers = [
            min((mesh.axes[axis].tier for axis in axes_in(int(mask))), default=innermost)
            for mask in self._replicas_mask(layer, choices)
        ]
        sync_s = self._server_bytes(layer, choices) * self._s_per_byte[tiers]
        return replace(super().layer_seconds(layer, choices), sync_s=sync_s)


@dataclass(frozen=True, eq=False)
class OneServerDevicesAtOnce(OneServer, DevicesAtOnce):
    """Both."""


_IN_TURN, _AT_ONCE, _NODES = "all in turn", "devices at once", "nodes at once"
_PER_NODE, _ONE_LINK = "per node, then between", "2 P W over one link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    transfer: str
    sync: str
    side: Side

    @property
    def links(self) -> str:
        return " / ".join(f"{tier.bytes_per_s / 1e9:g}" for tier in load_cluster(self.side.cluster).tiers)

    @property
    def scaled(self) -> str:
        return "all layers" if self.side.scales_all else "convolutions"


# what was tried; the first is what all other tables use
READINGS = (
    Reading(transfer=_IN_TURN, sync=_PER_NODE, side=PAPERS),
    Reading(transfer=_IN_TURN, sync=_PER_NODE, side=replace(PAPERS, scales_all=True)),
    Reading(transfer=_IN_TURN, sync=_PER_NODE, side=replace(PAPERS, cluster="p100-4x4")),
    Reading(transfer=_IN_TURN, sync=_PER_NODE, side=replace(PAPERS, cluster="p100-4x4", scales_all=True)),
    Reading(transfer=_IN_TURN, sync=_PER_NODE, side=replace(PAPERS, cluster=ONE_NVLINK)),
    Reading(transfer=_NODES, sync=_PER_NODE, side=replace(PAPERS, cost=NodesAtOnce)),
    Reading(transfer=_AT_ONCE, sync=_PER_NODE, side=replace(PAPERS, cost=DevicesAtOnce)),
    Reading(transfer=_IN_TURN, sync=_ONE_LINK, side=replace(PAPERS, cost=OneServer)),
    Reading(transfer=_AT_ONCE, sync=_ONE_LINK, side=replace(PAPERS, cost=OneServerDevicesAtOnce)),
)
