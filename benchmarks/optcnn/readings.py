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
from slicewise.cost.optcnn import PaperModel, all_in_turn, server_per_node
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats, axes_in


def devices_at_once(model: PaperModel, items: Floats) -> Floats:
    """t_X: devices receive at the same time; the one that lacks most is waited for."""
    slowest: Floats = np.tensordot(model.s_per_byte, items, axes=1).max(axis=-1) * model.training.item_bytes
    return slowest


def nodes_at_once(model: PaperModel, items: Floats) -> Floats:
    """t_X: the devices below a link receive in turn, different links at the same time."""
    seconds = np.zeros(items.shape[1:3])
    for tier, received in enumerate(items):
        below = prod(inner.size for inner in model.cluster.tiers[tier + 1 :])
        busiest = received.reshape(*received.shape[:2], -1, below).sum(axis=-1).max(axis=-1)
        seconds += busiest * model.s_per_byte[tier] * model.training.item_bytes
    return seconds


def one_server(model: PaperModel, layer: Layer, choices: Choices) -> Floats:
    """t_S: all 2 * replicas * weight bytes over one link, the slowest between the replicas."""
    mesh, innermost = model.cluster.mesh, len(model.cluster.tiers) - 1
    tiers = [
        min((mesh.axes[axis].tier for axis in axes_in(int(mask))), default=innermost)
        for mask in model.replicas_mask(layer, choices)
    ]
    seconds: Floats = model.server_bytes(layer, choices) * model.s_per_byte[tiers]
    return seconds


class DevicesAtOnce(PaperModel):
    transfer_s = devices_at_once
    server_s = server_per_node


class NodesAtOnce(PaperModel):
    transfer_s = nodes_at_once
    server_s = server_per_node


class OneServer(PaperModel):
    transfer_s = all_in_turn
    server_s = one_server


class OneServerDevicesAtOnce(PaperModel):
    transfer_s = devices_at_once
    server_s = one_server


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
