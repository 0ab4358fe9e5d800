"""What one device does, and the catalogue of those that can be named."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from msgspec import UNSET, to_builtins

from slicewise.cluster.cluster_file import DeviceFields
from slicewise.cluster.kernels import Kernels, fitted_kernels, read_kernels
from slicewise.cluster.lines import Lines, read_lines
from slicewise.dtype import PLAIN
from slicewise.errors import ClusterError
from slicewise.formats.checking import checked
from slicewise.formats.files import parse_toml
from slicewise.formats.words import shown

# what drivers and shops say beside a device's name: makers, families, and forms of boards and memory
_SAID_BESIDE = ("nvidia", "geforce", "tesla", "quadro", "amd", "instinct", "radeon", "generation", "gb")
_FORMS = re.compile(r"sxm\d?|hbm\d?e?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Efficiencies are the share of peak that large layers reach; small ones reach less. `kernels`, where there are
    any, say it by kind of kernel, and stand in for `efficiency`, `half_size` and `kernel_s` of layers. `layers` are
    what `slicewise calibrate` measured, for the cost model `calibrated`."""

    name: str
    peak_flops_per_s: float  # fp32
    memory_bytes_per_s: float
    memory_bytes: int
    kernel_s: float
    # of the peak, for large shapes: conv, linear, and conv3d where volumes run at another rate; each also _backward
    efficiency: Mapping[str, float]
    # a matrix dim of this size reaches half of its efficiency: rows, columns, reduction
    half_size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # peaks of the other dtypes, where it has them
    reduced_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    kernels: Kernels | None = None
    layers: Lines | None = None

    @property
    def peaks(self) -> dict[str, float]:
        """FLOP/s of every dtype it has."""
        return {PLAIN: self.peak_flops_per_s, **self.reduced_flops_per_s}

    def flops(self, dtype: str) -> float:
        """Peak FLOP/s: `load_device("A100-80").flops("bf16") == 312e12`."""
        if dtype not in self.peaks:
            raise ClusterError(f"{self.name} has no {dtype}; choose from {', '.join(self.peaks)}")
        return self.peaks[dtype]


def device_names() -> list[str]:
    return list(_catalogue())


def load_device(name: str) -> Device:
    """A device of the catalogue."""
    origin = "devices.toml"
    return read_device(checked(DeviceFields, completed(name, origin), f"{origin}: {name}", ClusterError), origin)


def read_device(fields: DeviceFields, origin: str) -> Device:
    """Of `[device]` of a cluster file, completed."""
    efficiency = to_builtins(fields.efficiency)
    for name, other in (("conv3d", "conv3d_backward"), ("conv3d_backward", "conv3d")):
        if name in efficiency and other not in efficiency:
            raise ClusterError(f"{origin}: device.efficiency.{other} is missing; {name} needs it")
    return Device(
        name=fields.name,
        peak_flops_per_s=fields.peak_flops_per_s,
        memory_bytes_per_s=fields.memory_bytes_per_s,
        memory_bytes=fields.memory_bytes,
        kernel_s=fields.kernel_s,
        efficiency=efficiency,
        half_size=fields.half_size,
        reduced_flops_per_s=to_builtins(fields.reduced_flops_per_s),
        kernels=None if fields.kernels is UNSET else read_kernels(fields.kernels),
        layers=None if fields.layers is UNSET else read_lines(fields.layers),
    )


def completed(said: Any, origin: str) -> Any:
    """What a file says of its device over what the one it is `like` has, table by table; a name alone is like that.

    A file with an efficiency or half sizes of its own means the roofline that they belong to, not the fitted kernels.
    """
    given = {"like": said} if isinstance(said, str) else said
    if not isinstance(given, dict) or not isinstance(given.get("like"), str):
        return said
    name = _listed(given["like"], origin)
    given = given | {"like": name}
    base = {**completed(_catalogue()[name], origin), "name": name}
    if given.keys() & {"efficiency", "half_size"}:
        base.pop("kernels", None)
    return base | {
        key: {**base[key], **value} if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in given.items()
    }


def _listed(said: str, origin: str) -> str:
    """A device's name as the catalogue has it: `H100` for `NVIDIA H100 80GB HBM3`."""
    if said in _catalogue():
        return said
    plain = {_plain(f"{name} {load_device(name).memory_bytes >> 30}"): name for name in device_names()}
    plain |= {_plain(name): name for name in device_names()}
    if (asked := _plain(said)) in plain:
        return plain[asked]
    from difflib import get_close_matches  # only where something is wrong

    joined = {_joined(name): name for name in device_names()}
    letters = _joined(said)
    near = [one for one in joined if letters in one] or [one for one in joined if one in letters]
    near = near or get_close_matches(letters, joined)
    names = dict.fromkeys([*(joined[one] for one in near), *device_names()])
    raise ClusterError(
        f"{origin}: device: unknown device {shown(said)}; choose from {', '.join(names)}, "
        "or spell it out under [device]"
    )


def _plain(name: str) -> tuple[str, ...]:
    """Its words in any order."""
    return tuple(sorted(_words(name)))


def _joined(name: str) -> str:
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    """Small letters and digits, without its maker, its family and GB."""
    words = re.findall(r"[a-z]+|[0-9]+", _FORMS.sub(" ", name[:100].lower()))
    return [word for word in words if word not in _SAID_BESIDE]


@cache
def _catalogue() -> dict[str, Any]:
    text = resources.files("slicewise.cluster").joinpath("devices.toml").read_text(encoding="utf-8")
    tables = parse_toml(text, "devices.toml", ClusterError)
    fitted = {name: fitted_kernels(name) for name in tables}
    return {name: {**table, "kernels": fitted[name]} if fitted[name] else table for name, table in tables.items()}
