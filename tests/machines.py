"""Descriptions of machines like the one that the tests run on, as files."""

from pathlib import Path

from slicewise.cluster.cluster import Cluster, Device, Tier
from slicewise.cluster.writing import to_toml

CORE = Device(
    name="core",
    peak_flops_per_s=1e11,
    memory_bytes_per_s=1e10,
    memory_bytes=1_000_000_000,
    kernel_s=1e-6,
    efficiency={"conv": 0.5, "conv_backward": 0.4, "linear": 0.6, "linear_backward": 0.5},
    reduced_flops_per_s={"bf16": 1e11, "fp16": 1e11},
)


def tier(name: str, latency_s: float = 1e-5, bytes_per_s: float = 1e9) -> Tier:
    """Of two members."""
    return Tier(name=name, size=2, latency_s=latency_s, bytes_per_s=bytes_per_s)


def write_cores(path: Path, *tiers: Tier, device: Device = CORE) -> Path:
    """A pair of cores, or the tiers given."""
    path.write_text(to_toml(Cluster(name=path.stem, device=device, tiers=tiers or (tier("node"),))))
    return path
