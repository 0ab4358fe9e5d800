"""The lessons' machine: up to 32 GPUs on one switch, so that a formula has one alpha and one beta."""

from slicewise.cluster.cluster import Cluster, Tier
from slicewise.cluster.device import load_device

NETWORK = "alexnet"
DEVICE = "P100"
DEVICES = (1, 2, 4, 8, 16, 32)
BATCHES = (32, 128, 512, 2048)
GIGABYTES_PER_S = (1, 5, 25, 100)
LATENCY_S = 2e-5


def machine(gigabytes_per_s: float, devices: int = DEVICES[-1]) -> Cluster:
    link = Tier(name="switch", size=devices, latency_s=LATENCY_S, bytes_per_s=gigabytes_per_s * 1e9)
    return Cluster(name="lesson", device=load_device(DEVICE), tiers=(link,))
