"""A short look at the network between the ranks that run: all-reduces, against what a cluster's description says."""

import torch

from slicewise.cluster.cluster import Cluster
from slicewise.cost.network import Network
from slicewise.running.checkup import AllReduceCheck, NetworkCheck
from slicewise.running.profiler import all_reduce_seconds
from slicewise.running.ranks import ranks

_SIZES, _REPEATS = (64 * 2**10, 2**20, 8 * 2**20), 9


def look_at_network(device: torch.device, cluster: Cluster | None) -> NetworkCheck:
    """Every rank calls it and returns the same."""
    measured = all_reduce_seconds(device, _SIZES, _REPEATS)
    described = Network(cluster.with_devices(ranks())) if cluster is not None else None
    exchanges = []
    for message_bytes, seconds in measured.items():
        line = described.all_reduce(tuple(range(len(described.cluster.mesh.axes)))) if described else None
        calibrated_s = line.seconds(message_bytes) if line else None
        exchanges.append(AllReduceCheck(message_bytes=message_bytes, measured_s=seconds, calibrated_s=calibrated_s))
    return NetworkCheck(ranks=ranks(), exchanges=tuple(exchanges))
