"""What the page's controls say: a network, a cluster and how to train, as values."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from slicewise.cluster.cluster import MOST_DEVICES, Cluster, load_cluster
from slicewise.cost.training import Training
from slicewise.errors import RequestError, UnknownName
from slicewise.formats.checking import checked
from slicewise.formats.schema import Count, Name, Positive, Table
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph, shipped_names
from slicewise.partition.buckets import BUCKET_BYTES
from slicewise.studio.uploads import Uploads

MOST_SAMPLES = 1_048_576  # of a batch that the page asks for


class LinkFields(Table):
    """Of one tier, where the user changed it."""

    latency_s: Positive | UnsetType = UNSET
    bytes_per_s: Positive | UnsetType = UNSET


class SettingFields(Table):
    """As the page sends it."""

    model: Name
    cluster: Name
    devices: Annotated[int, Meta(ge=1, le=MOST_DEVICES)]
    batch: Annotated[int, Meta(ge=1, le=MOST_SAMPLES)]
    software: str | None = None
    dtype: str = "fp32"
    optimizer: str = "sgd"
    recompute: bool = False
    batchnorm: str = "exact"
    bucket_bytes: Count | None = None  # None: the planner finds a size, as `slicewise plan` does
    tiers: dict[str, LinkFields] = field(default_factory=dict)
    memory_bytes: Count | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """A network on a cluster with a batch. `key` says when two are the same."""

    key: tuple[Any, ...]
    graph: LayerGraph  # of whatever batch it was captured with
    cluster: Cluster  # not yet trimmed to `devices`
    devices: int
    batch: int
    training: Training
    bucket_bytes: int | None  # as asked for; `training` has the size that prices are of
    changed: bool  # whether the cluster's values were edited

    @property
    def machine_key(self) -> tuple[Any, ...]:
        """Of network, cluster and training, whatever the devices and the batch."""
        return self.key[:-2]

    def priced(self, bucket_bytes: int | None) -> "Setting":
        """For prices of a plan whose gradients are summed in buckets of its own size."""
        if bucket_bytes in (None, self.training.bucket_bytes):
            return self
        training = replace(self.training, bucket_bytes=bucket_bytes)
        return replace(self, training=training)

    @property
    def bench_key(self) -> tuple[Any, ...]:
        """When two are priced alike."""
        return (*self.key, self.training.bucket_bytes)

    @property
    def machine(self) -> Cluster:
        return self.cluster.with_devices(self.devices)


def setting_of(document: Any, uploads: Uploads) -> Setting:
    """Errors name the field, its value and what would work."""
    asked = checked(SettingFields, document, "setting")
    training = Training(
        dtype=asked.dtype,
        optimizer=asked.optimizer,
        recompute=asked.recompute,
        batchnorm=asked.batchnorm,
        bucket_bytes=BUCKET_BYTES if asked.bucket_bytes is None else asked.bucket_bytes,
    )
    cluster = edited(cluster_named(asked.cluster, uploads), asked)
    cluster.device.flops(training.dtype)  # refuse a dtype that the device does not have
    links = tuple(
        (name, link.latency_s, link.bytes_per_s) for name, link in sorted(asked.tiers.items()) if link != LinkFields()
    )
    return Setting(
        key=(
            asked.model,
            asked.cluster,
            cluster.software,
            tuple(asdict(training).values()),
            links,
            asked.memory_bytes,
            asked.bucket_bytes is None,
            asked.devices,
            asked.batch,
        ),
        graph=graph_named(asked.model, uploads),
        cluster=cluster,
        devices=asked.devices,
        batch=asked.batch,
        training=training,
        bucket_bytes=asked.bucket_bytes,
        changed=bool(links or asked.memory_bytes),
    )


def graph_named(name: str, uploads: Uploads) -> LayerGraph:
    """A network of the zoo, or one that was uploaded: nothing that runs code."""
    found = uploads.graph(name)
    if found is not None:
        return found
    if name not in shipped_names():
        raise UnknownName("network", name, shipped_names(), "; or upload a saved graph")
    return uploads.remembered(("graph", name), lambda: load_graph(name))


def cluster_named(name: str, uploads: Uploads) -> Cluster:
    """A preset, this machine, or a description that was uploaded: no other file."""
    found = uploads.cluster(name)
    if found is not None:
        return found
    if name.endswith(".toml"):
        raise RequestError(f"cluster {name!r} was not uploaded; drop its file on the page")
    return uploads.remembered(("cluster", name), lambda: load_cluster(name))


def edited(cluster: Cluster, asked: SettingFields) -> Cluster:
    """With other links, memory and software; a link that is edited is the same for every collective."""
    unknown = set(asked.tiers) - {tier.name for tier in cluster.tiers}
    if unknown:
        raise UnknownName("tier", min(unknown), [tier.name for tier in cluster.tiers])
    tiers = []
    for tier in cluster.tiers:
        given = asked.tiers.get(tier.name, LinkFields())
        values: dict[str, float] = {}
        for name in ("latency_s", "bytes_per_s"):
            value = getattr(given, name)
            if value is not UNSET:
                values[name] = value
        tiers.append(replace(tier, **values, collectives={}) if values else tier)  # type: ignore[arg-type]
    device = cluster.device
    if asked.memory_bytes is not None:
        device = replace(device, memory_bytes=asked.memory_bytes)
    software = cluster.software if asked.software is None else asked.software
    return replace(cluster, tiers=tuple(tiers), device=device, software=software)


def device_counts(cluster: Cluster, most: int = 1024) -> list[int]:
    """Counts that a slider stops at: powers of two inside a node, then doublings of whole nodes."""
    node = cluster.tiers[-1].size
    inside = [1 << power for power in range(node.bit_length()) if 1 << power < node]
    beyond = [node << power for power in range(most.bit_length()) if node << power <= max(most, cluster.devices)]
    return [count for count in [*inside, *beyond] if _possible(cluster, count)]


def _possible(cluster: Cluster, devices: int) -> bool:
    try:
        cluster.with_devices(devices)
    except RequestError:
        return False
    return True


def cluster_fields(name: str, cluster: Cluster, counts: Sequence[int]) -> dict[str, Any]:
    """What the page shows of a cluster."""
    device = cluster.device
    return {
        "name": name,
        "device": device.name,
        "devices": cluster.devices,
        "node": cluster.tiers[-1].size,
        "memory_bytes": device.memory_bytes,
        "dtypes": list(device.peaks),
        "software": cluster.software,
        "origin": cluster.origin,
        "counts": list(counts),
        "tiers": [
            {
                "name": tier.name,
                "size": tier.size,
                "latency_s": tier.latency_s,
                "bytes_per_s": tier.bytes_per_s,
                "ports": tier.ports,
            }
            for tier in cluster.tiers
        ],
    }
