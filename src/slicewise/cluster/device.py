"""What one device does, and the catalogue of those that can be named."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import Any

from slicewise.cluster.fields import Fields
from slicewise.errors import ClusterError

DTYPES = ("fp32", "tf32", "bf16", "fp16")
_FAMILIES = ("conv", "linear", "conv3d")
_DIRECTIONS = ("", "_backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Efficiencies are the share of peak that large layers reach; small ones reach less."""

    name: str
    peak_flops_per_s: float  # fp32
    memory_bytes_per_s: float
    memory_bytes: int
    kernel_s: float
    # of the peak, for large shapes: conv, linear, and conv3d where volumes run at another rate; each also _backward
    efficiency: Mapping[str, float]
    # a matrix dim of this size reaches half of its efficiency: rows, columns, reduction
    half_size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # peaks of tf32, bf16 and fp16, where it has them
    reduced_flops_per_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def peaks(self) -> dict[str, float]:
        """FLOP/s of every dtype it has."""
        return {"fp32": self.peak_flops_per_s, **self.reduced_flops_per_s}

    def flops(self, dtype: str) -> float:
        """Peak FLOP/s: `load_device("A100-80").flops("bf16") == 312e12`."""
        if dtype not in self.peaks:
            raise ClusterError(f"{self.name} has no {dtype}; choose from {', '.join(self.peaks)}")
        return self.peaks[dtype]


def device_names() -> list[str]:
    return list(_catalogue().values)


def load_device(name: str) -> Device:
    """A device of the catalogue."""
    return read_device(Fields(values={"device": name}, origin="devices.toml"))


def read_device(cluster: Fields) -> Device:
    """Of a cluster's description: `device = "A100-80"`, or [device] spelled out, or `like` one but for what it says."""
    if isinstance(cluster.values.get("device"), str):
        cluster = Fields(values={"device": {"like": cluster.text("device")}}, origin=cluster.origin)
    given = cluster.table("device")
    given.check_names(["like", *(item.name for item in fields(Device))])
    device = Fields(values=_completed(given), origin=given.origin, path=given.path)
    return Device(
        name=device.text("name"),
        peak_flops_per_s=device.positive("peak_flops_per_s"),
        memory_bytes_per_s=device.positive("memory_bytes_per_s"),
        memory_bytes=device.whole("memory_bytes"),
        kernel_s=device.positive("kernel_s"),
        efficiency=_efficiency(device.table("efficiency")),
        half_size=device.three("half_size") if "half_size" in device else (0.0, 0.0, 0.0),
        reduced_flops_per_s=_reduced(device.table("reduced_flops_per_s")) if "reduced_flops_per_s" in device else {},
    )


@cache
def _catalogue() -> Fields:
    return Fields.parse(resources.files("slicewise.cluster").joinpath("devices.toml").read_text(), "devices.toml")


def _completed(given: Fields) -> Mapping[str, Any]:
    """What is given over what the device it is like has, table by table."""
    if "like" not in given:
        return given.values
    name = given.text("like")
    if name not in _catalogue():
        given.fail(f"unknown device {name!r}; choose from {', '.join(device_names())}, or spell it out under [device]")
    base = {**_completed(_catalogue().table(name)), "name": name}
    return base | {
        key: {**base[key], **value} if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in given.values.items()
    }


def _efficiency(given: Fields) -> dict[str, float]:
    given.check_names([family + direction for family in _FAMILIES for direction in _DIRECTIONS])
    has_volumes = "conv3d" in given or "conv3d_backward" in given
    return {
        family + direction: given.positive(family + direction)
        for family in _FAMILIES
        if family != "conv3d" or has_volumes
        for direction in _DIRECTIONS
    }


def _reduced(given: Fields) -> dict[str, float]:
    given.check_names(DTYPES[1:], "dtype")
    return {dtype: given.positive(dtype) for dtype in DTYPES if dtype in given}
