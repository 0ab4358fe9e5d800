"""Clusters and devices as tables for people."""

from collections.abc import Iterable, Mapping

from slicewise.cluster.cluster import COLLECTIVES, LIKE, Cluster, Tier
from slicewise.cluster.device import Device
from slicewise.cluster.writing import tuning_toml
from slicewise.dtype import DTYPES
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import amount, seconds


def show_catalogue(clusters: Iterable[Cluster], devices: Iterable[Device], *, calibrated: bool) -> None:
    notes = {"ports": "of one member", "bandwidth": "of one port"}
    table = Table(
        "cluster", "tier", "devices", "device", "members", "ports", "bandwidth", "latency", keys=2, notes=notes
    )
    for cluster in clusters:
        for position, tier in enumerate(cluster.tiers):
            name, *head = ("", "", "") if position else (cluster.name, str(cluster.devices), cluster.device.name)
            link = tier.link("any")
            table.add_row(
                name,
                tier.name,
                *head,
                str(tier.size),
                str(tier.ports),
                amount(link.bytes_per_s, "B/s"),
                seconds(link.latency_s),
            )
    told = "`--devices K` trims or grows any of them."
    if not calibrated:
        told += "\nlocal: this machine, once `slicewise calibrate` has measured it"
    peaks = Prose('Peaks of dense matrices, in FLOP/s. In a cluster file: device = "A100-80".', style="dim")
    Page().show(table, Prose(told, style="dim"), _device_table(devices), peaks)


def _device_table(devices: Iterable[Device]) -> Table:
    table = Table("device", "memory", "memory rate", *DTYPES)
    for device in devices:
        peaks = [amount(device.peaks[dtype], "") if dtype in device.peaks else "-" for dtype in DTYPES]
        table.add_row(device.name, amount(device.memory_bytes, "B"), amount(device.memory_bytes_per_s, "B/s"), *peaks)
    return table


def show_cluster(cluster: Cluster) -> None:
    page = Page()
    device = cluster.device
    tiers = " x ".join(f"{tier.size} {tier.name}" for tier in cluster.tiers)
    page.say((cluster.name, "bold"), f": {cluster.devices} x {device.name} ({tiers}); figures: {cluster.origin}")
    facts = Table("of one device", "value")
    rows = _device_rows(device) | {"all-reduce hidden behind compute": f"up to {cluster.overlap:.0%}"}
    rows["software"] = cluster.software
    if cluster.cores:
        rows["cores that ranks share"] = str(cluster.cores)
    for name, value in rows.items():
        facts.add_row(name, value)
    notes = {"bandwidth": "of one port", "all busy": "what each device has when all of them send"}
    table = Table("tier", "operation", "bandwidth", "all busy", "latency", "members", "ports", keys=2, notes=notes)
    unfolded = cluster.unfolded
    for position, tier in enumerate(unfolded.tiers):
        for operation in _operations(tier):
            link = tier.link(operation)
            table.add_row(
                tier.name,
                operation,
                amount(link.bytes_per_s, "B/s"),
                amount(unfolded.bytes_per_s(position, operation), "B/s"),
                seconds(link.latency_s),
                str(tier.size),
                str(tier.ports),
            )
    page.show(facts, table)
    tuned = tuning_toml(cluster.tuning)
    if tuned:
        page.say(tuned.strip())


def _operations(tier: Tier) -> list[str]:
    """Those with a pace of their own, and `any` for the rest if there is one."""
    own = [name for name in COLLECTIVES if name in tier.collectives]
    covered = all(name in own for name in COLLECTIVES if name not in LIKE)
    return own if covered else ["any", *own]


def _device_rows(device: Device) -> dict[str, str]:
    """What layers reach is that of fitted kernels where the device has them, else that of its roofline."""
    kernels = device.kernels
    shares = kernels.simt.efficiency if kernels else device.efficiency
    calls = sorted(kernels.call_s.values()) if kernels else [device.kernel_s]
    return {
        "peak": _listed(device.peaks),
        "large layers, fp32": _listed({name: device.peak_flops_per_s * share for name, share in shares.items()}),
        **({} if kernels else {"half of that with": _either(device.half_size)}),
        "memory": f"{amount(device.memory_bytes, 'B')} at {amount(device.memory_bytes_per_s, 'B/s')}",
        **({"layers measured": ", ".join(name.replace("_", " ") for name in device.layers)} if device.layers else {}),
        "calling a layer": " to ".join(dict.fromkeys(seconds(call_s) for call_s in (calls[0], calls[-1]))),
    }


def _either(half_size: tuple[float, float, float]) -> str:
    sides = ("rows", "columns", "items summed over")
    return " or ".join(f"{half:g} {side}" for half, side in zip(half_size, sides, strict=True) if half) or "-"


def _listed(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {amount(rate, 'FLOP/s')}" for name, rate in rates.items())
