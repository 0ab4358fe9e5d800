"""Devices, the links between them, and where the numbers come from."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import resources
from math import prod
from pathlib import Path

from slicewise.cluster.device import Device as Device  # a cluster is described with it: known from here too
from slicewise.cluster.device import read_device
from slicewise.cluster.fields import Fields
from slicewise.cluster.mesh import Mesh
from slicewise.cluster.tuning import NEUTRAL, Tuning, read_tuning
from slicewise.errors import ClusterError, RequestError, UnknownName

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "gradient")  # gradient: an all-reduce, and packing around it


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
        found = self.collectives.get(operation)
        if found is None and operation == "gradient":
            found = self.collectives.get("all_reduce")
        return found or Link(self.latency_s, self.bytes_per_s)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Tiers from the outermost inwards, as `p100-4x4` is 4 nodes of 4 GPUs."""

    name: str
    device: Device
    tiers: tuple[Tier, ...]
    overlap: float = 1.0  # the share of a gradient all-reduce that can hide behind backward
    cores: int | None = None  # set where ranks share cores: more ranks than cores slow each other down
    origin: str = "preset"
    tuning: Tuning = NEUTRAL  # what the framework does to the strategies' closed forms

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
    own, caches = os.environ.get("SLICEWISE_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(own) / "local.toml"
    try:
        folder = Path(caches) if os.path.isabs(caches) else Path("~/.cache").expanduser()  # as XDG says
    except RuntimeError as error:
        raise RequestError("no home folder is known here; set SLICEWISE_CACHE to a folder for `local`") from error
    return folder / "slicewise" / "local.toml"


def preset_names() -> list[str]:
    files = resources.files("slicewise.cluster").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_cluster(name: str) -> Cluster:
    """A preset, `local` (this machine, after `slicewise calibrate`), or the path of a TOML file."""
    cluster = parse_cluster(*description(name))
    return replace(cluster, name=name) if name.endswith(".toml") else cluster  # so that a plan finds it again


def description(name: str) -> tuple[str, str]:
    """The TOML text of a cluster, and the file it stands in."""
    if name == "local":
        if not local_path().exists():
            raise RequestError("this machine is not calibrated yet; run `slicewise calibrate --quick` first")
        return _read(local_path()), str(local_path())
    if name.endswith(".toml"):
        return _read(Path(name)), name
    if name not in preset_names():
        raise UnknownName("cluster", name, [*preset_names(), "local"], " or give the path of a .toml file")
    preset = resources.files("slicewise.cluster").joinpath("presets", f"{name}.toml")
    return preset.read_text(encoding="utf-8"), preset.name


def _read(path: Path) -> str:
    if not path.exists():
        raise ClusterError(f"{path}: no such file")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ClusterError(f"{path}: not TOML (not UTF-8 text: {error.reason})") from error


def parse_cluster(text: str, origin: str) -> Cluster:
    """A cluster from TOML; errors name the file and the field."""
    return cluster_of(Fields.parse(text, origin))


def cluster_of(given: Fields) -> Cluster:
    given.check_names(("name", "origin", "overlap", "cores", "device", "tiers", "tuning"))
    return Cluster(
        name=given.text("name"),
        device=read_device(given),
        tiers=_tiers(given),
        overlap=given.share("overlap") if "overlap" in given else 1.0,
        cores=given.whole("cores") if "cores" in given else None,
        origin=given.text("origin") if "origin" in given else "preset",
        tuning=read_tuning(given.table("tuning")) if "tuning" in given else NEUTRAL,
    )


def _tiers(given: Fields) -> tuple[Tier, ...]:
    tiers = tuple(_tier(table) for table in given.tables("tiers"))
    names = [tier.name for tier in tiers]
    if len(set(names)) < len(names):
        given.fail(f"tiers must have different names (got {', '.join(names)})")
    return tiers


def _tier(given: Fields) -> Tier:
    given.check_names([item.name for item in fields(Tier)])
    return Tier(
        name=given.text("name"),
        size=given.whole("size"),
        latency_s=given.positive("latency_s"),
        bytes_per_s=given.positive("bytes_per_s"),
        ports=given.whole("ports") if "ports" in given else 1,
        collectives=_collectives(given.table("collectives")) if "collectives" in given else {},
    )


def _collectives(given: Fields) -> dict[str, Link]:
    given.check_names(COLLECTIVES, "collective")
    return {name: _link(given.table(name)) for name in given.values}


def _link(given: Fields) -> Link:
    given.check_names([item.name for item in fields(Link)])
    return Link(given.positive("latency_s"), given.positive("bytes_per_s"))
