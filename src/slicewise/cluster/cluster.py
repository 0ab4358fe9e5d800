"""Devices, the links between them, and where the numbers come from."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from math import prod
from pathlib import Path
from typing import Any

from slicewise.cluster.mesh import Mesh
from slicewise.errors import ClusterError, RequestError, UnknownName

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What one device does. Efficiencies are the share of peak that large layers reach; small ones reach less."""

    name: str
    peak_flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: int
    kernel_s: float
    # of the peak, for large shapes: conv, linear, and conv3d where volumes run at another rate; each also _backward
    efficiency: Mapping[str, float]
    # a matrix dim of this size reaches half of its efficiency: rows, columns, reduction
    half_size: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Link:
    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A level of the machine: `size` members joined by links, each member with `ports` of them."""

    name: str
    size: int
    latency_s: float
    bytes_per_s: float
    ports: int = 1
    collectives: Mapping[str, Link] = field(default_factory=dict)  # fitted, where the plain link is not the truth

    def link(self, operation: str) -> Link:
        return self.collectives.get(operation) or Link(self.latency_s, self.bytes_per_s)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Tiers from the outermost inwards, as `p100-4x4` is 4 nodes of 4 GPUs."""

    name: str
    device: Device
    tiers: tuple[Tier, ...]
    overlap: float = 1.0  # the share of a gradient all-reduce that can hide behind backward
    cores: int | None = None  # set where ranks share cores: more ranks than cores slow each other down
    origin: str = "preset"

    @cached_property
    def devices(self) -> int:
        return prod(tier.size for tier in self.tiers)

    @cached_property
    def mesh(self) -> Mesh:
        return Mesh.of({tier.name: tier.size for tier in self.tiers})

    @property
    def slowdown(self) -> float:
        """How much slower a rank computes because it shares its core."""
        return max(1.0, self.devices / self.cores) if self.cores else 1.0

    def bytes_per_s(self, tier: int, operation: str) -> float:
        """What one device gets of a tier when all devices use it: its ports, shared by the devices below."""
        sharing = prod(inner.size for inner in self.tiers[tier + 1 :])
        return self.tiers[tier].link(operation).bytes_per_s * min(1.0, self.tiers[tier].ports / sharing)

    def with_devices(self, devices: int) -> "Cluster":
        """Trimmed or grown to `devices`: whole inner tiers first, the outermost takes the rest."""
        if devices < 1:
            raise ClusterError(f"{self.name}: devices must be positive (got {devices})")
        tiers: list[Tier] = []
        left = devices
        for position in reversed(range(len(self.tiers))):
            size = left if position == 0 else min(left, self.tiers[position].size)
            if left % size:
                raise ClusterError(
                    f"{self.name}: {devices} devices do not fill whole groups of {size} ({self.tiers[position].name}); "
                    f"choose a multiple of {size} or fewer than {size}"
                )
            left //= size
            if size > 1 or position == len(self.tiers) - 1:
                tiers.insert(0, replace(self.tiers[position], size=size))
        return replace(self, tiers=tuple(tiers))


def local_path() -> Path:
    """Where `slicewise calibrate` keeps what it measured on this machine."""
    base = os.environ.get("SLICEWISE_CACHE") or Path.home() / ".cache" / "slicewise"
    return Path(base) / "local.toml"


def preset_names() -> list[str]:
    files = resources.files("slicewise.cluster").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_cluster(name: str) -> Cluster:
    """A preset, `local` (this machine, after `slicewise calibrate`), or the path of a TOML file."""
    if name == "local":
        path = local_path()
        if not path.exists():
            raise RequestError("this machine is not calibrated yet; run `slicewise calibrate --quick` first")
        return parse_cluster(path.read_text(), str(path))
    if name.endswith(".toml"):
        if not Path(name).exists():
            raise ClusterError(f"{name}: no such file")
        return replace(parse_cluster(Path(name).read_text(), name), name=name)  # so that a plan finds it again
    if name not in preset_names():
        raise UnknownName("cluster", name, [*preset_names(), "local"], " or give the path of a .toml file")
    text = resources.files("slicewise.cluster").joinpath("presets", f"{name}.toml").read_text()
    return parse_cluster(text, f"{name}.toml")


def parse_cluster(text: str, origin: str) -> Cluster:
    """A cluster from TOML; errors name the file and the field."""
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ClusterError(f"{origin}: not TOML ({error})") from error
    device = _section(fields, "device", origin)
    return Cluster(
        name=_text(fields, "name", origin),
        device=Device(
            name=_text(device, "name", f"{origin}: device"),
            peak_flops_per_s=_positive(device, "peak_flops_per_s", f"{origin}: device"),
            memory_bytes_per_s=_positive(device, "memory_bytes_per_s", f"{origin}: device"),
            memory_bytes=_whole(device, "memory_bytes", f"{origin}: device"),
            kernel_s=_positive(device, "kernel_s", f"{origin}: device"),
            efficiency=_efficiency(_section(device, "efficiency", f"{origin}: device"), f"{origin}: device.efficiency"),
            half_size=_triple(device, "half_size", f"{origin}: device"),
        ),
        tiers=_tiers(fields, origin),
        overlap=_share(fields, "overlap", origin),
        cores=_whole(fields, "cores", origin) if "cores" in fields else None,
        origin=str(fields.get("origin", "preset")),
    )


def _efficiency(fields: Mapping[str, Any], where: str) -> dict[str, float]:
    families = ("conv", "linear", *(["conv3d"] if {"conv3d", "conv3d_backward"} & set(fields) else []))
    return {
        f"{family}{direction}": _positive(fields, f"{family}{direction}", where)
        for family in families
        for direction in ("", "_backward")
    }


def _tiers(fields: Mapping[str, Any], origin: str) -> tuple[Tier, ...]:
    items = fields.get("tiers") or _missing("tiers", origin)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ClusterError(f"{origin}: tiers must be a list of tables, each under [[tiers]]")
    tiers = tuple(_tier(item, f"{origin}: tiers[{position}]") for position, item in enumerate(items))
    names = [tier.name for tier in tiers]
    if len(set(names)) < len(names):
        raise ClusterError(f"{origin}: tiers must have different names (got {', '.join(names)})")
    return tiers


def _tier(fields: Mapping[str, Any], where: str) -> Tier:
    fitted = _section(fields, "collectives", where) if "collectives" in fields else {}
    return Tier(
        name=_text(fields, "name", where),
        size=_whole(fields, "size", where),
        latency_s=_positive(fields, "latency_s", where),
        bytes_per_s=_positive(fields, "bytes_per_s", where),
        ports=_whole(fields, "ports", where) if "ports" in fields else 1,
        collectives={
            name: _link(_section(fitted, name, f"{where}.collectives"), f"{where}.collectives.{name}")
            for name in _known_collectives(fitted, where)
        },
    )


def _link(fields: Mapping[str, Any], where: str) -> Link:
    return Link(_positive(fields, "latency_s", where), _positive(fields, "bytes_per_s", where))


def _known_collectives(given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    for name in given:
        if name not in COLLECTIVES:
            raise ClusterError(f"{where}.collectives: unknown {name!r}; choose from {', '.join(COLLECTIVES)}")
    return given


def _missing(name: str, where: str) -> Any:
    raise ClusterError(f"{where}: {name} is missing")


def _section(fields: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else _missing(name, where)


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else _missing(name, where)


def _positive(fields: Mapping[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if value is None:
        _missing(name, where)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ClusterError(f"{where}: {name} must be a positive number (got {value!r})")
    return float(value)


def _whole(fields: Mapping[str, Any], name: str, where: str) -> int:
    value = _positive(fields, name, where)
    if not value.is_integer():
        raise ClusterError(f"{where}: {name} must be a whole number (got {value!r})")
    return int(value)


def _share(fields: Mapping[str, Any], name: str, where: str) -> float:
    value = fields.get(name, 1.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ClusterError(f"{where}: {name} must be a number from 0 to 1 (got {value!r})")
    return float(value)


def _triple(fields: Mapping[str, Any], name: str, where: str) -> tuple[float, float, float]:
    value = fields.get(name, [0, 0, 0])
    if not isinstance(value, list) or len(value) != 3 or any(not isinstance(v, (int, float)) or v < 0 for v in value):
        raise ClusterError(f"{where}: {name} must be three numbers >= 0 (got {value!r})")
    return float(value[0]), float(value[1]), float(value[2])
