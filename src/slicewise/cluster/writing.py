"""A cluster as the TOML text that `load_cluster` reads, or as the same fields inside another file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.tuning import tuning_toml


def to_toml(cluster: Cluster, remarks: Sequence[str] = ()) -> str:
    """Everything spelled out, four digits of each figure; `remarks` stand above it as comments."""
    device = cluster.device
    lines = [
        *(f"# {remark}".rstrip() for remark in remarks),
        "schema_version = 1",
        f"name = {_text(cluster.name)}",
        f"origin = {_text(cluster.origin)}",
        f"overlap = {cluster.overlap:.3f}",
        *([f"cores = {cluster.cores}"] if cluster.cores else []),
        "",
        "[device]",
        f"name = {_text(device.name)}",
        f"peak_flops_per_s = {device.peak_flops_per_s:.4g}",
        f"memory_bytes_per_s = {device.memory_bytes_per_s:.4g}",
        f"memory_bytes = {device.memory_bytes}",
        f"kernel_s = {device.kernel_s:.4g}",
        f"half_size = [{', '.join(f'{half:g}' for half in device.half_size)}]",
        *_table("device.reduced_flops_per_s", device.reduced_flops_per_s),
        *_table("device.efficiency", device.efficiency),
    ]
    for tier in cluster.tiers:
        lines += [
            "",
            "[[tiers]]",
            f"name = {_text(tier.name)}",
            f"size = {tier.size}",
            f"latency_s = {tier.latency_s:.4g}",
            f"bytes_per_s = {tier.bytes_per_s:.4g}",
            f"ports = {tier.ports}",
        ]
        for name, link in tier.collectives.items():
            pace = {"latency_s": link.latency_s, "bytes_per_s": link.bytes_per_s}
            lines += _table(f"tiers.collectives.{name}", pace)
    return "\n".join([*lines, *tuning_toml(cluster.tuning)]) + "\n"


def to_fields(cluster: Cluster) -> dict[str, Any]:
    """What the TOML says, as tables, to the last digit."""
    fields = asdict(cluster)
    fields["device"]["half_size"] = list(cluster.device.half_size)
    fields["tiers"] = list(fields["tiers"])
    return {name: _said(value) for name, value in fields.items() if value is not None}


def _said(value: Any) -> Any:
    """Without what is None: TOML has no word for it."""
    return {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value


def _text(value: str) -> str:
    """In quotes. TOML knows JSON's escapes, but not its two for one character."""
    return json.dumps(value, ensure_ascii=False)


def _table(name: str, values: Mapping[str, float]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {value:.4g}" for key, value in values.items())] if values else []
