"""Seconds of one kernel on a device whose kernels were fitted: arithmetic and memory traffic, each with its own losses.

    seconds    = call_s + sqrt(arithmetic^2 + memory^2)
    memory     = bytes / (bandwidth * share of the kind)
    arithmetic = 2 * summed * (outer * other + fill) * (1 + whole reduction / long) / (peak * efficiency)

Every size is lengthened by its half size: a dim of that size reaches half the rate. `summed` is the dim that the
direction sums over: the reduction forward, the columns for the gradient of the input, the rows for that of the weight.
`fill` is the output that fills half of the device. The sum grows with every size and less than in proportion to it, so
a smaller part never makes the whole cheaper.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.cluster.kernels import PASSES
from slicewise.dtype import DTYPES
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Floats

TILE = 4  # Winograd's outputs come in squares of this side
ALIGN = 8  # matrix units take channels in groups of this


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A matrix product, rows x reduction times reduction x columns, `groups` times. Numbers or arrays alike."""

    rows: Any
    columns: Any
    reduction: Any
    groups: Any
    whole_reduction: Any  # of the layer, uncut


def arithmetic_s(work: Work, direction: str, half_size: Any, long_reduction: Any, flops_per_s: Any) -> Floats:
    """Of a product in one direction; `half_size` is rows, columns, reduction, fill."""
    rows, columns, reduction = (
        size + half for size, half in zip((work.rows, work.columns, work.reduction), half_size[:3], strict=True)
    )
    summed = {"forward": reduction, "backward_input": columns, "backward_weight": rows}[direction]
    steps = work.groups * rows * columns * reduction + half_size[3] * summed
    seconds: Floats = 2 * steps * (1 + work.whole_reduction / long_reduction) / flops_per_s
    return seconds


def kernel_s(arithmetic: Any, memory: Any, call_s: Any) -> Floats:
    """Neither hides behind the other entirely."""
    seconds: Floats = call_s + np.hypot(arithmetic, memory)
    return seconds


def tiled(length: Any) -> Any:
    """Positions that tiles cover: whole ones, at the last."""
    return -(-length // TILE) * TILE


def aligned(channels: Any) -> Any:
    return -(-channels // ALIGN) * ALIGN


def together(layer: Layer) -> int:
    """Narrow groups that matrix units take at once, as one with zeros between them."""
    dims, shape = layer.factor
    columns, channels = shape[dims.index("F")] // layer.groups, layer.reduction // layer.taps
    return max(1, ALIGN // max(columns, channels))


def family(layer: Layer, *, narrow: bool, dense: bool = False) -> str:
    """The kind of kernel that runs a product; `dense`: as if it had one group. Of the whole layer: being cut changes
    no algorithm.
    """
    if layer.kind.has(Trait.OF_INPUTS):
        return "product"
    if layer.kind is Kind.LINEAR:
        held = any(len(weight.dims) > 1 for weight in (*layer.weights, *layer.buffers))
        return "linear" if held else "product"
    windows = layer.windows.values()
    if layer.groups > 1 and not dense:
        dims, shape = layer.factor
        return "depthwise" if shape[dims.index("F")] == layer.groups else "grouped"
    if len(layer.windows) == 3:
        return "volume"
    if any(window.stride > 1 for window in windows):
        return "strided"
    if all(window.kernel == 1 for window in windows):
        return "pointwise"
    square = len(layer.windows) == 2 and all((window.kernel, window.dilation) == (3, 1) for window in windows)
    return "winograd" if square and not narrow else "window"  # matrix units multiply as it stands


def memory_kind(layer: Layer) -> str:
    if layer.kind.has(Trait.PRODUCT):
        return "product"
    return layer.kind.value if layer.kind.value in PASSES else "elementwise"


def traffic(layer: Layer, direction: str, *, software: str, dtype: str, on_matrix_units: bool) -> float:
    """How often a pass reads or writes the layer's inputs and output.

    Backward of a norm reads its input and the gradient twice; that of a function of one input reads two tensors and
    writes one. Convolutions on matrix units want channels last: unless all layers keep that order, what goes in and
    comes out is turned, a read and a write more. Tuned software keeps that order in 16 bits, and there has kernels that
    take element-wise layers along, but for the second input of a sum. Norms of plain software take 16 bits no quicker
    than 32.
    """
    forward, half = direction == "forward", DTYPES[dtype].item_bytes == 2
    tuned = software == "tuned" and half
    if layer.kind is Kind.CONV:
        return 3.0 if on_matrix_units and not tuned else 1.0
    if layer.kind is Kind.NORM:
        return (1.0 if forward else 5 / 3) * (2.0 if half and not tuned else 1.0)
    if layer.kind is Kind.ELEMENTWISE:
        alone = len(layer.inputs) == 1
        if tuned:
            return 1 / 3 if forward and not alone else 0.0
        return 1.0 if forward or not alone else 1.5
    return 1.0
