"""What a device makes of each kind of kernel: the fitted half of the catalogue (kernels.toml, by `benchmarks.devices`).

Data sheets say what a device could do; this says which share of it a convolution, a product or a norm gets, in each
direction, and how it falls for small work. `cost/utilisation.py` has the formula.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from msgspec import UNSET, to_builtins

from slicewise.cluster.kernels_file import KernelsFields, UnitFields
from slicewise.dtype import PLAIN
from slicewise.errors import ClusterError
from slicewise.formats.files import parse_toml

PRODUCTS = (
    "linear", "product", "pointwise", "winograd", "window", "strided", "volume", "grouped", "depthwise"
)  # fmt: skip
CONVOLUTIONS = PRODUCTS[2:]
PASSES = ("product", "elementwise", "norm", "softmax", "pool")  # kinds that differ in what they get of the memory
CALLS = ("linear", "product", "forward", "backward_input", "backward_weight", "elementwise", "norm", "softmax", "pool")
DIRECTIONS = ("forward", "backward_input", "backward_weight")
Half = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One arithmetic unit: fp32 cores (`simt`), or matrix units (`tensor`)."""

    efficiency: Mapping[str, float]  # by kind: share of the peak that large shapes reach; Winograd's may exceed 1
    backward_input: float  # times that, for the gradient of the input
    backward_weight: float
    strided_input: float  # once more, for the gradient of the input through a stride
    # per direction (linear: all three alike): rows, columns, reduction at which a dim reaches half; the output items
    # that fill half of the device
    half_size: Mapping[str, Half]
    long_reduction: float  # a reduction of this length runs at half the rate: its operands miss the caches

    def scaled(self, factor: float, kinds: Collection[str]) -> "Unit":
        """So many times as fast in these kinds."""
        shares = {kind: share * (factor if kind in kinds else 1.0) for kind, share in self.efficiency.items()}
        return replace(self, efficiency=shares)

    def share(self, kind: str, direction: str) -> float:
        """Of the peak, for large shapes: `unit.share("winograd", "backward_weight")`."""
        turned = {"forward": 1.0, "backward_input": self.backward_input, "backward_weight": self.backward_weight}
        again = self.strided_input if (kind, direction) == ("strided", "backward_input") else 1.0
        return self.efficiency[kind] * turned[direction] * again


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    simt: Unit
    tensor: Unit | None = None
    memory: Mapping[str, float]  # by kind: share of the bandwidth
    call_s: Mapping[str, float]  # by kind: what a kernel costs however small it is
    spread: Mapping[str, float]  # by kind: standard deviation of ln(measured / this)
    by_rule: bool = False  # nobody timed the device: all of this is as near generations have it

    def units(self, dtype: str) -> tuple[Unit, ...]:
        """Those that can run it: libraries take the quicker one."""
        return (self.simt,) if dtype == PLAIN or self.tensor is None else (self.tensor, self.simt)

    def scaled(self, factor: float, kinds: Collection[str] = PRODUCTS) -> "Kernels":
        """Arithmetic of these kinds so many times as fast."""
        tensor = self.tensor and self.tensor.scaled(factor, kinds)
        return replace(self, simt=self.simt.scaled(factor, kinds), tensor=tensor)


def read_kernels(fields: KernelsFields) -> Kernels:
    return Kernels(
        simt=_unit(fields.simt),
        tensor=None if fields.tensor is UNSET else _unit(fields.tensor),
        memory=to_builtins(fields.memory),
        call_s=to_builtins(fields.call_s),
        spread=to_builtins(fields.spread),
        by_rule=fields.by_rule,
    )


def _unit(fields: UnitFields) -> Unit:
    return Unit(
        efficiency=to_builtins(fields.efficiency),
        backward_input=fields.backward_input,
        backward_weight=fields.backward_weight,
        strided_input=fields.strided_input,
        half_size={name: _half(values) for name, values in to_builtins(fields.half_size).items()},
        long_reduction=fields.long_reduction,
    )


def _half(values: Any) -> Half:
    rows, columns, reduction, fill = values
    return rows, columns, reduction, fill


def fitted_kernels(name: str) -> dict[str, Any] | None:
    """The table of a catalogue's device, as a cluster file would spell it out; None where nothing was fitted."""
    return _fitted().get(name)


@cache
def _fitted() -> dict[str, Any]:
    text = resources.files("slicewise.cluster").joinpath("kernels.toml").read_text(encoding="utf-8")
    return parse_toml(text, "kernels.toml", ClusterError)  # a device is checked as a whole, with its table
