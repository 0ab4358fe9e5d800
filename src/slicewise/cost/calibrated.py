"""The cost model of this machine: layers take what `slicewise calibrate` saw layers of their kind take.

seconds = call_s + s_per_flop * FLOPs + s_per_item * items + s_per_weight * weights        a line per kind and direction

Where another kernel runs a part than the whole, the part has a line of its own: a norm whose statistics are shared by
several devices, a small volume on a CPU. Kinds that were not measured, and dtypes other than fp32, are priced as
`analytic` prices them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.lines import ALSO, MULTIPLIED, PIPELINE, STEP, UPDATE, Line
from slicewise.cost.compute import AnalyticCompute, Compute, PassCompute, Share, unknown_flops
from slicewise.cost.own import OwnModel
from slicewise.cost.utilisation import family
from slicewise.dtype import PLAIN
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Floats, Ints

# element-wise functions that take many instructions, or draw random numbers
_SMOOTH = (
    "gelu", "silu", "mish", "sigmoid", "tanh", "softmax", "log_softmax", "softplus", "elu", "selu", "hardswish", "exp",
    "log", "pow", "dropout", "feature_dropout", "drop_path",
)  # fmt: skip
# when PyTorch takes which convolution of volumes on a CPU
_MANY_SAMPLES, _SMALL_WINDOW, _SMALL_LINES = 16, 3, 20480


@final
@dataclass(frozen=True, slots=True)
class CalibratedCompute(PassCompute):
    def own_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        kind = line_kind(layer)
        line = self._line(kind, direction)
        if line is None:
            return AnalyticCompute(self.cluster, self.training).own_s(layer, part, direction)
        usual_s = _seconds(line, layer, part, direction)
        if layer.kind is Kind.OPAQUE and (linear := self._line("linear", direction)) is not None:
            usual_s = usual_s + linear.s_per_flop * unknown_flops(layer, part, direction)
        for other_kind, where in _other_kernel(layer, kind, part).items():
            if (other := self._line(other_kind, direction)) is not None:
                return np.where(where, _seconds(other, layer, part, direction), usual_s)
        return usual_s

    def step_s(self) -> float:
        line = (self.cluster.device.layers or {}).get(STEP, {}).get("forward")
        return line.call_s if line else 0.0

    def pipeline_s(self) -> tuple[float, float]:
        line = (self.cluster.device.layers or {}).get(STEP, {}).get(PIPELINE)
        slowdown = self.cluster.slowdown
        if line is None:  # of an older profile: as a step of sliced layers
            return slowdown * self.step_s(), 0.0
        return slowdown * line.call_s, slowdown * line.s_per_item

    def optimizer_s(self, items: Ints, weights: int) -> Floats:
        line = self._line(UPDATE, self.training.optimizer)
        if line is None:
            return AnalyticCompute(self.cluster, self.training).optimizer_s(items, weights)
        return np.asarray(line.call_s * weights + line.s_per_weight * items, dtype=float)

    def _line(self, kind: str, direction: str) -> Line | None:
        lines = self.cluster.device.layers
        if lines is None or self.training.dtype != PLAIN:
            return None
        return lines.get(kind, lines.get(ALSO.get(kind, ""), {})).get(direction)


def _seconds(line: Line, layer: Layer, part: Share, direction: str) -> Floats:
    if layer.kind.has(Trait.PRODUCT):
        flops = 2 * part.rows * part.columns * part.summed(direction) * part.groups
    else:
        flops = layer.taps * part.output
    items = sum(part.inputs, part.output)
    seconds: Floats = (
        line.call_s + line.s_per_flop * flops + line.s_per_item * items + line.s_per_weight * part.weight_items
    )
    return seconds


def _other_kernel(layer: Layer, kind: str, part: Share) -> dict[str, NDArray[np.bool_]]:
    """The line that some of the parts have instead, and which."""
    if layer.kind is Kind.NORM:
        return {"shared_norm": part.sharing > 1}
    if kind == "volume":
        return {"plain_volume": runs_plainly([window.kernel for window in layer.windows.values()], part)}
    return {}


def runs_plainly(kernel: Sequence[int], part: Share) -> NDArray[np.bool_]:
    """Whether PyTorch's own plain convolution runs on a CPU, not oneDNN's, which is several times as fast.

    That is so where a part is small and a single sample, and for 1x1x1 windows on one thread, unless there are many
    samples (`use_mkldnn` in ATen's Convolution.cpp). On other devices both lines say the same.
    """
    if all(size == 1 for size in kernel):
        plainly = part.samples < _MANY_SAMPLES
    elif all(size > _SMALL_WINDOW for size in kernel[-2:]):
        plainly = np.zeros(len(part.samples), dtype=bool)
    else:
        plainly = (part.samples == 1) & (part.lines <= _SMALL_LINES)
    return np.asarray(plainly, dtype=bool)


def line_kind(layer: Layer) -> str:
    """Of the lines in `cluster/lines.py`."""
    if layer.kind is Kind.ATTENTION:
        return "attention"
    if layer.kind.has(Trait.PRODUCT):
        found = family(layer, narrow=True)  # whether a window is multiplied as it stands is the library's choice
        assert found in MULTIPLIED
        return found
    name = str(layer.options.get("op", "")).removeprefix("aten.").partition(".")[0]
    if layer.kind is Kind.NORM:
        return "layer_norm" if name in ("layer_norm", "rms_norm") else "norm"
    if layer.kind is Kind.POOL:
        return "global_pool" if "adaptive" in name else "maxpool" if "max" in name else "pool"
    if layer.kind is Kind.REDUCE:
        return "global_pool"
    if layer.kind is Kind.ELEMENTWISE and len(layer.inputs) == 1:
        return "smooth" if name in _SMOOTH else "elementwise"
    return "sum" if layer.kind is Kind.ELEMENTWISE else "copy"


@final
@dataclass(frozen=True, eq=False)
class CalibratedModel(OwnModel):
    """Layers take what CalibratedCompute says."""

    name: ClassVar[str] = "calibrated"
    coarsens: ClassVar[bool] = False
    recosted: ClassVar[bool] = True
    formulated: ClassVar[bool] = False

    @cached_property
    def compute(self) -> Compute:
        return CalibratedCompute(self.cluster, self.training)
