"""A machine that is a little different: the same tiers with other links."""

from dataclasses import replace

from slicewise.cluster.cluster import Cluster, Link, Tier


def with_link(cluster: Cluster, tier: str, *, bandwidth: float = 1.0, latency: float = 1.0) -> Cluster:
    """Every link of a tier so many times as fast, and with so many times the latency; racks are a tier here too."""

    def scaled(link: Link) -> Link:
        return Link(latency * link.latency_s, bandwidth * link.bytes_per_s)

    def changed(item: Tier) -> Tier:
        racks = changed(item.racks) if item.racks is not None else None
        if item.name != tier:
            return replace(item, racks=racks)
        plain = scaled(Link(item.latency_s, item.bytes_per_s))
        return replace(
            item,
            latency_s=plain.latency_s,
            bytes_per_s=plain.bytes_per_s,
            queue_s=None if item.queue_s is None else item.queue_s / bandwidth,
            collectives={name: scaled(link) for name, link in item.collectives.items()},
            racks=racks,
        )

    return replace(cluster, tiers=tuple(map(changed, cluster.tiers)))
