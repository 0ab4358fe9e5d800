"""Devices, the links between them, and where the numbers come from."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from math import prod
from pathlib import Path
from typing import Any

from msgspec import UNSET, to_builtins

from slicewise.cluster.cluster_file import ClusterFields, DeviceFields, RackFields, TierFields
from slicewise.cluster.device import Device as Device  # a cluster is described with it: known from here too
from slicewise.cluster.device import completed, read_device
from slicewise.cluster.freshness import MeasuredOn, check_fresh
from slicewise.cluster.mesh import Mesh
from slicewise.cluster.times import Times, read_time
from slicewise.cluster.tuning import NEUTRAL, Tuning, read_tuning
from slicewise.errors import ClusterError, RequestError, UnknownName
from slicewise.formats.checking import check_version, checked
from slicewise.formats.files import LARGEST_TOML_BYTES, parse_toml, read_text
from slicewise.units import amount, seconds

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "bucket", "gradient", "send")
# what a collective is where it has no pace of its own. bucket: gradients in the runtime, summed where they lie;
# gradient: those of another framework, and what it does around them; send: from one stage of a pipeline to the next
LIKE = {"bucket": "all_reduce", "gradient": "bucket", "send": "all_to_all"}
READABLE = (1,)  # versions of the description
SOFTWARE = ("plain", "tuned")
MOST_DEVICES = 65_536  # beyond, tables over all devices fill memory; nobody has so many


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
    queue_s: float | None = None  # what a message waits behind a gradient bucket that is under way, at most
    racks: "Tier | None" = None  # of the outermost tier: its members stand in racks of that tier's size, the last less

    def __str__(self) -> str:
        """`inter: 4 members, 1 port of 7.00 GB/s each, latency 5.00 us`"""
        ports = "1 port" if self.ports == 1 else f"{self.ports} ports"
        rate, latency = amount(self.bytes_per_s, "B/s"), seconds(self.latency_s)
        return f"{self.name}: {self.size} members, {ports} of {rate} each, latency {latency}"

    def link(self, operation: str) -> Link:
        found = self.collectives.get(operation)
        if found is None and operation in LIKE:
            return self.link(LIKE[operation])
        return found or Link(self.latency_s, self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`model`, trained on one device: a step of `batch` samples took `seconds`."""

    model: str
    batch: int
    seconds: float
    factor: float  # its compute over what this cluster's description alone says
    dtype: str | None = None  # as it was trained; None: in a file that does not say
    optimizer: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Tiers from the outermost inwards, as `p100-4x4` is 4 nodes of 4 GPUs."""

    name: str
    device: Device
    tiers: tuple[Tier, ...]
    overlap: float = 1.0  # the share of a gradient all-reduce that can hide behind backward
    straggling: float = 0.0  # what compute loses per doubling of the devices, to the slowest and to their input
    cores: int | None = None  # set where ranks share cores: more ranks than cores slow each other down
    origin: str = "preset"
    tuning: Tuning = NEUTRAL  # what the framework does to the strategies' closed forms
    # "plain": a framework as it comes; "tuned": fused kernels, channels last, as vendors' own examples
    software: str = "plain"
    software_assumed: bool = False  # nobody said which
    measured: Measured | None = None  # what one device was seen to do with one network
    measured_on: MeasuredOn | None = None  # of a calibrated machine
    reference_s: float | None = None  # a fixed piece of work on it, for later runs to compare with
    times: Times = field(default_factory=dict)  # of single layers, for the cost model `measured`

    def __post_init__(self) -> None:
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise ClusterError(f"{self.name}: tiers must have different names (got {', '.join(names)})")
        if any(name[-1:].isdigit() for name in names) and len({axis.name for axis in self.mesh.axes}) < len(
            self.mesh.axes
        ):
            raise ClusterError(
                f"{self.name}: tiers {', '.join(names)} have axes of one name; drop digits at their ends"
            )
        if any(tier.racks is not None for tier in self.tiers[1:]):
            raise ClusterError(f"{self.name}: only the outermost tier, {names[0]}, can have racks")
        if self.devices > MOST_DEVICES:
            raise ClusterError(f"{self.name}: {self.devices:,} devices; at most {MOST_DEVICES:,} can be described")
        if self.software not in SOFTWARE:
            raise UnknownName("software", self.software, SOFTWARE)

    def __repr__(self) -> str:
        """`<Cluster p100-4x4: 16 x P100>`"""
        return f"<Cluster {self.name}: {self.devices} x {self.device.name}>"

    def __str__(self) -> str:
        """A line for the whole, one for each tier."""
        device = f"{self.device.name} ({amount(self.device.memory_bytes, 'B')})"
        about = f"figures: {self.origin}, software: {self.software}"
        return "\n".join([f"{self.name}: {self.devices} x {device}; {about}", *(f"  {tier}" for tier in self.tiers)])

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

    @property
    def pace(self) -> float:
        """What layers take over what the description alone says of them."""
        return self.measured.factor if self.measured else 1.0

    def bytes_per_s(self, tier: int, operation: str) -> float:
        """What one device gets of a tier when all devices use it: its ports, shared by the devices below."""
        sharing = prod(inner.size for inner in self.tiers[tier + 1 :])
        return self.tiers[tier].link(operation).bytes_per_s * min(1.0, self.tiers[tier].ports / sharing)

    def between_racks(self, operation: str, sharing: int) -> float:
        """What one device gets between racks while `sharing` members of its rack send out of it; no more than inside.

        Only where the outermost tier has racks.
        """
        racks = self.tiers[0].racks
        assert racks is not None
        flows = sharing * prod(inner.size for inner in self.tiers[1:])
        uplink = racks.link(operation).bytes_per_s * min(1.0, racks.ports / max(1, flows))
        return min(uplink, self.bytes_per_s(0, operation))

    @cached_property
    def unfolded(self) -> "Cluster":
        """With its racks as a tier of their own, all of them full."""
        outer, racks = self.tiers[0], self.tiers[0].racks
        if racks is None:
            return self
        around = replace(racks, size=-(-outer.size // racks.size))
        return replace(self, tiers=(around, replace(outer, size=racks.size, racks=None), *self.tiers[1:]))

    def with_devices(self, devices: int) -> "Cluster":
        """Trimmed or grown to `devices`: whole inner tiers first, the outermost takes the rest.

        Of three tiers or more, the outermost are racks: if the last of them would not be full, they become the
        `racks` of the tier inside.
        """
        if self.tiers[0].racks is not None:
            return self.unfolded.with_devices(devices)
        if not 1 <= devices <= MOST_DEVICES:
            raise ClusterError(f"{self.name}: devices must be from 1 to {MOST_DEVICES:,} (got {devices})")
        tiers: list[Tier] = []
        left = devices
        for position in reversed(range(len(self.tiers))):
            size = left if position == 0 else min(left, self.tiers[position].size)
            if left % size and position == 1 and len(self.tiers) > 2:
                racks = replace(self.tiers[0], size=size)
                tiers.insert(0, replace(self.tiers[1], size=left, racks=racks))
                break
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


def machine_of(cluster: str | Path | Cluster, devices: int | None = None, software: str | None = None) -> Cluster:
    """The cluster itself, or that of a name or a file; trimmed or grown to `devices`, with `software` for its own.

    `local` must be the machine that this is; a file may be of another.
    """
    found = cluster if isinstance(cluster, Cluster) else load_cluster(cluster)
    if cluster == "local" and found.measured_on is not None:
        check_fresh(found.measured_on, devices, on_cpu=found.cores is not None, path=local_path())
    found = found if devices is None else found.with_devices(devices)
    return found if software is None else replace(found, software=software, software_assumed=False)


def load_cluster(name: str | Path) -> Cluster:
    """A preset, `local` (this machine, after `slicewise calibrate`), or the path of a TOML file.

    >>> sw.load_cluster("p100-4x4").devices
    16
    """
    name = str(name)
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
    return read_text(path, ClusterError, "TOML", largest_bytes=LARGEST_TOML_BYTES)


def parse_cluster(text: str, origin: str) -> Cluster:
    """A cluster from TOML; errors name the file, the field, its value and what would work."""
    return cluster_of(parse_toml(text, origin, ClusterError), origin)


def cluster_of(document: Any, origin: str) -> Cluster:
    """Of a table as the TOML has it."""
    if isinstance(document, dict):
        check_version({"schema_version": READABLE[0], **document}, origin, READABLE, ClusterError)
        document = document | {"device": completed(document["device"], origin)} if "device" in document else document
    fields = checked(ClusterFields, document, origin, ClusterError)
    assert isinstance(fields.device, DeviceFields)  # a name is completed
    device = read_device(fields.device, origin)
    try:
        return Cluster(
            name=fields.name,
            device=device,
            tiers=tuple(_tier(tier) for tier in fields.tiers),
            overlap=fields.overlap,
            straggling=fields.straggling,
            cores=None if fields.cores is UNSET else fields.cores,
            origin=fields.origin,
            tuning=read_tuning(fields.tuning),
            software="plain" if fields.software is UNSET else fields.software,
            software_assumed=fields.software is UNSET or fields.software_assumed,
            measured=None if fields.measured is UNSET else Measured(**to_builtins(fields.measured)),
            measured_on=None if fields.measured_on is UNSET else MeasuredOn(**to_builtins(fields.measured_on)),
            reference_s=None if fields.reference_s is UNSET else fields.reference_s,
            times={key: read_time(time) for key, time in fields.times.items()},
        )
    except ClusterError as error:
        raise ClusterError(f"{origin}: {error}") from error


def _tier(fields: RackFields) -> Tier:
    return Tier(
        racks=_tier(fields.racks) if isinstance(fields, TierFields) and fields.racks is not UNSET else None,
        name=fields.name,
        size=fields.size,
        latency_s=fields.latency_s,
        bytes_per_s=fields.bytes_per_s,
        ports=fields.ports,
        queue_s=None if fields.queue_s is UNSET else fields.queue_s,
        collectives={name: Link(**link) for name, link in to_builtins(fields.collectives).items()},
    )
