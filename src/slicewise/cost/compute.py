"""Seconds of a layer's own work on one device: what every such model answers, and the analytic one.

Devices whose kernels were fitted (`Device.kernels`) take the formula of cost/utilisation.py; all others a roofline
whose efficiency falls for small shards.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.kernels import Kernels, Unit
from slicewise.cost.training import PLAIN, WEIGHT_BYTES, Training
from slicewise.cost.utilisation import (
    Work,
    aligned,
    arithmetic_s,
    family,
    kernel_s,
    memory_kind,
    tiled,
    together,
    traffic,
)
from slicewise.dtype import PLAIN as FP32
from slicewise.graph.dims import SPACE, WHOLE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats, Ints

# of torch's own operators, how those begin that meet what they hold as a product does
_MULTIPLYING = ("lstm", "gru", "rnn_", "bilinear", "_trilinear", "cdist", "_cdist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The largest share of a layer that one device gets (that of rank 0: chunks only get smaller), per choice."""

    samples: Ints
    inputs: tuple[Ints, ...]  # items
    lines: Ints  # of the first input along its last dim
    output: Ints
    weights: tuple[Ints, ...]
    rows: Ints  # the layer as a matrix product: rows x reduction times reduction x columns, per group
    columns: Ints
    reduction: Ints
    groups: Ints
    tiled_rows: Ints  # with space in Winograd's tiles, the last ones whole
    again: Ints  # reduction that backward computes a second time: attention's scores
    sharing: Ints  # devices that share the statistics of a norm
    borders: Ints  # parts that windows reach out of
    block: Ints  # keys that attention sees at once

    @property
    def flops(self) -> Ints:
        """Of forward."""
        return 2 * self.rows * self.columns * self.reduction * self.groups

    def summed(self, direction: str) -> Ints:
        """The reduction of one pass."""
        return self.reduction + self.again if direction == "backward_input" else self.reduction

    @property
    def weight_items(self) -> Ints:
        return sum(self.weights, np.zeros_like(self.output))


def shares(layer: Layer, choices: Choices) -> Share:
    """Nested ceilings are one: ceil(ceil(e / a) / b) = ceil(e / (a b))."""
    degrees = {dim: choices.degrees(dim) for dim in Dim}
    one = np.ones(len(choices), dtype=np.int64)

    def part(dims: str, shape: tuple[int, ...], without: str = "", in_tiles: str = "") -> Ints:
        items = one
        for letter, size in zip(dims, shape, strict=True):
            if letter not in without:
                extent = -(-size // degrees[Dim(letter)]) if letter in degrees else size
                items = items * (tiled(extent) if letter in in_tiles else extent)
        return items

    inputs = tuple(part(dims, shape) for dims, shape in zip(layer.input_dims, layer.input_shapes, strict=True))
    weights = tuple(part(weight.dims, weight.shape) for weight in layer.weights)
    rows = columns = reduction = groups = tiled_rows = block = one
    again = np.zeros_like(one)
    if layer.kind is Kind.ATTENTION:
        dims, shape = layer.dims, layer.shape
        groups, rows = part(dims[:-2], shape[:-2]), part(dims[-2], shape[-2:-1])
        keys, extent = layer.input_dims[1][-2], layer.input_shapes[1][-2:-1]
        block = part(keys, extent)
        columns, reduction = part(WHOLE if layer.passes_keys else keys, extent), layer.reduction * one
        again = layer.input_shapes[0][-1] * one
    elif layer.kind is Kind.MATMUL:
        left, right = _factors(layer)
        both = "".join(letter for letter in layer.dims if letter in left and letter in right)
        groups = part(both, tuple(layer.shape[layer.dims.index(letter)] for letter in both))
        columns = part(Dim.K, (layer.shape[layer.dims.index(Dim.K)],)) if Dim.K in layer.dims else one
        reduction = part(Dim.C, (layer.reduction,))
        rows = part(layer.dims, layer.shape) // (groups * columns)
    elif layer.kind.has(Trait.PRODUCT):
        transposed = any(window.transposed for window in layer.windows.values())
        dims, shape = (layer.input_dims[0], layer.input_shapes[0]) if transposed else (layer.dims, layer.shape)
        rows = part(dims, shape, without="FC")
        tiled_rows = part(dims, shape, without="FC", in_tiles="".join(SPACE))
        dims, shape = layer.factor
        all_filters = shape[dims.index("F")]
        filters = part("F", (all_filters,))
        groups = np.maximum(1, layer.groups * filters // all_filters)
        columns = np.maximum(1, filters // groups)
        reduction = part(dims, shape) // filters
    return Share(
        samples=part(Dim.N, (layer.shape[layer.dims.index(Dim.N)],)) if Dim.N in layer.dims else one,
        inputs=inputs,
        lines=part(layer.input_dims[0][:-1], layer.input_shapes[0][:-1]) if inputs else one,
        output=part(layer.dims, layer.shape),
        weights=weights,
        rows=rows,
        columns=columns,
        reduction=reduction,
        groups=groups,
        tiled_rows=tiled_rows,
        again=again,
        sharing=np.prod([one, *(degrees[dim] for dim in layer.statistics)], axis=0),
        borders=np.prod([one, *(degrees[dim] for dim in layer.windows)], axis=0),
        block=block,
    )


def unknown_flops(layer: Layer, part: Share, direction: str) -> Floats:
    """Of an operator that nobody taught us: as if every position of its output met all matrices that it holds, once.

    That is what recurrent layers do. Positions are those of samples, time and space: channels are the last extent of
    the output that the matrix has too. Backward has two such passes, as a product has.
    """
    held = (*layer.weights, *layer.buffers) if layer.kind is Kind.OPAQUE and _may_multiply(layer) else ()
    matrices = [each.shape for each in held if len(each.shape) > 1]
    last = layer.shape[-1] if layer.shape else 1
    met = sum(
        prod(shape) / next((extent for extent in reversed(layer.shape) if extent in shape), last) for shape in matrices
    )
    return np.asarray(2 * part.output * met * (1 if direction == "forward" else 2), dtype=float)


def _may_multiply(layer: Layer) -> bool:
    """torch's own operators are known: look-ups hold tables, and multiply nothing. Of other libraries' all may."""
    library, _, operator = str(layer.options.get("op", "")).partition(".")
    return library != "aten" or operator.startswith(_MULTIPLYING)


def _factors(layer: Layer) -> list[str]:
    """The letters of the two tensors that a product multiplies, but for those that are never sliced."""
    held = (weight.dims for weight in (*layer.weights, *layer.buffers))
    return [dims.replace(WHOLE, "") for dims in (*layer.input_dims, *held) if Dim.C in dims]


@dataclass(frozen=True, slots=True)
class Compute(ABC):
    """What a device takes for its part of a layer, per choice."""

    cluster: Cluster
    training: Training = PLAIN

    @abstractmethod
    def forward_s(self, layer: Layer, part: Share) -> Floats: ...

    @abstractmethod
    def backward_s(self, layer: Layer, part: Share, passes: Sequence[str]) -> Floats:
        """`passes`: a product's gradients that are wanted, one pass each. Recomputed layers run forward once more."""

    @abstractmethod
    def update_s(self, layer: Layer, part: Share) -> Floats:
        """Of the weights that are first read here."""

    def pipeline_s(self) -> tuple[float, float]:
        """What a pipeline costs beside its layers and messages: in a step, and in every turn of a stage."""
        return 0.0, 0.0

    def recomputes(self, layer: Layer) -> bool:
        return self.training.recompute and not layer.kind.has(Trait.PRODUCT) and not layer.kind.has(Trait.FREE)


@dataclass(frozen=True, slots=True)
class PassCompute(Compute):
    """Pass by pass, times the pace that was measured and the slowdown of shared cores."""

    @abstractmethod
    def own_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        """One pass on a device that shares its core with nobody."""

    @abstractmethod
    def optimizer_s(self, items: Ints, weights: int) -> Floats:
        """The optimizer's step over so many items of so many weights."""

    def step_s(self) -> float:
        """What a step costs beside its layers: the input is charged with it."""
        return 0.0

    def forward_s(self, layer: Layer, part: Share) -> Floats:
        if layer.kind is Kind.INPUT:
            return np.full(part.output.shape, self.step_s() * self.cluster.slowdown)
        return self._pass_s(layer, part, "forward")

    def backward_s(self, layer: Layer, part: Share, passes: Sequence[str]) -> Floats:
        seconds = np.zeros(part.output.shape)
        for direction in passes:
            seconds = seconds + self._pass_s(layer, part, direction)
        return seconds + self.forward_s(layer, part) if self.recomputes(layer) else seconds

    def update_s(self, layer: Layer, part: Share) -> Floats:
        updated = [items for weight, items in zip(layer.weights, part.weights, strict=True) if weight.updated]
        if not updated:
            return np.zeros(part.output.shape)
        return self.optimizer_s(np.sum(updated, axis=0), len(updated)) * self.cluster.slowdown

    def _pass_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        if layer.kind.has(Trait.FREE):
            return np.zeros(part.output.shape)
        return self.own_s(layer, part, direction) * self.cluster.pace * self.cluster.slowdown


@final
@dataclass(frozen=True, slots=True)
class AnalyticCompute(PassCompute):
    """Without fitted kernels:

    time = max(FLOPs / (peak * efficiency * saturation), bytes / memory bandwidth) + kernel overhead,

    saturation = product over the matrix's three dims of size / (size + half size).
    """

    def own_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        kernels = self.cluster.device.kernels
        return self._fitted_s(kernels, layer, part, direction) if kernels else self._roofline_s(layer, part, direction)

    def optimizer_s(self, items: Ints, weights: int) -> Floats:
        """Read the gradient, read and write the weight and what the optimizer keeps of it."""
        device = self.cluster.device
        touched = (3 + 2 * self.training.state_items) * items
        return WEIGHT_BYTES * touched / device.memory_bytes_per_s + device.kernel_s

    def _fitted_s(self, kernels: Kernels, layer: Layer, part: Share, direction: str) -> Floats:
        """A library runs a product in the quickest way there is: on either unit, and groups as one with zeros too.

        What kernels for groups reach was set on steps in their dtype, so a library's choice of unit is in it.
        """
        if not layer.kind.has(Trait.PRODUCT):
            kind, passes = memory_kind(layer), self._traffic(layer, direction, narrow=False)
            memory = self._memory_s(kernels, layer, part, passes)
            arithmetic = self._unknown_s(kernels, layer, part, direction)
            return kernel_s(arithmetic, memory, kernels.call_s[kind] if passes else 0.0)
        units, grouped = kernels.units(self.training.dtype), layer.groups > 1
        ways = [self._product_s(kernels, unit, layer, part, direction, dense=grouped) for unit in units]
        if grouped:
            ways.append(self._product_s(kernels, units[0], layer, part, direction, dense=False))
        quickest: Floats = np.minimum.reduce(ways)
        return quickest

    def _unknown_s(self, kernels: Kernels, layer: Layer, part: Share, direction: str) -> Floats:
        """By the quickest unit, as large linear layers run."""
        rates = [self._peak(kernels, unit) * unit.efficiency["linear"] for unit in kernels.units(self.training.dtype)]
        return unknown_flops(layer, part, direction) / max(rates)

    def _peak(self, kernels: Kernels, unit: Unit) -> float:
        """Of a unit: beside matrix units, plain ones run any dtype as fp32."""
        beside = unit is kernels.simt and kernels.tensor is not None
        return self.cluster.device.flops(FP32 if beside else self.training.dtype)

    def _traffic(self, layer: Layer, direction: str, *, narrow: bool) -> float:
        software, dtype = self.cluster.software, self.training.dtype
        return traffic(layer, direction, software=software, dtype=dtype, on_matrix_units=narrow)

    def _memory_s(self, kernels: Kernels, layer: Layer, part: Share, passes: float) -> Floats:
        items: Floats = passes * sum(part.inputs, part.output).astype(np.float64)
        bytes_touched = items * self.training.item_bytes + part.weight_items * WEIGHT_BYTES
        return bytes_touched / (self.cluster.device.memory_bytes_per_s * kernels.memory[memory_kind(layer)])

    def _product_s(
        self, kernels: Kernels, unit: Unit, layer: Layer, part: Share, direction: str, *, dense: bool
    ) -> Floats:
        """One pass on one unit; `dense`: groups as one with zeros."""
        narrow = unit is kernels.tensor
        memory = self._memory_s(kernels, layer, part, self._traffic(layer, direction, narrow=narrow))
        made_of = family(layer, narrow=narrow, dense=dense)
        grouped = made_of in ("grouped", "depthwise")
        convolution = layer.kind is Kind.CONV
        size = direction if convolution else "linear"
        rows, columns, fill = unit.half_size[size][0], unit.half_size[size][1], unit.half_size[size][3]
        half = (0.0, 0.0, 0.0, fill) if grouped else (rows, columns, unit.half_size[size][2], fill)
        rate = self._peak(kernels, unit) * unit.share(made_of, direction)
        call_s = kernels.call_s[direction if convolution else made_of]
        work = self._work(layer, part, made_of, direction, narrow=narrow, dense=dense)
        return kernel_s(arithmetic_s(work, direction, half, unit.long_reduction, rate), memory, call_s)

    def _work(self, layer: Layer, part: Share, made_of: str, direction: str, *, narrow: bool, dense: bool) -> Work:
        """A cut layer keeps the whole one's losses for long reductions, and its zeros: being cut makes nothing
        cheaper.
        """
        taps, zeros = layer.taps, layer.groups if dense else 1
        channels, columns = part.summed(direction) // taps * zeros, part.columns * (part.groups if dense else 1)
        groups = np.ones_like(part.groups) if dense else part.groups
        if narrow and made_of == "grouped":
            groups = -(-groups // together(layer))
        if narrow:
            channels, columns = aligned(channels), aligned(columns)
        return Work(
            rows=(part.rows + part.tiled_rows) / 2 if made_of == "winograd" else part.rows,
            columns=columns,
            reduction=channels * taps,
            groups=groups,
            whole_reduction=layer.reduction * zeros,
        )

    def _roofline_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        device = self.cluster.device
        items = sum(part.inputs, part.output)
        bytes_touched = items * self.training.item_bytes + part.weight_items * WEIGHT_BYTES
        time_s: Floats = bytes_touched / device.memory_bytes_per_s
        if layer.kind.has(Trait.PRODUCT):
            saturation = np.ones(part.output.shape)
            reduction = part.summed(direction)
            for size, half in zip((part.rows, part.columns, reduction), device.half_size, strict=True):
                saturation = saturation * (size / (size + half))
            name = "conv" if layer.kind is Kind.CONV else "linear"
            name = "conv3d" if len(layer.windows) == 3 and "conv3d" in device.efficiency else name
            turned = "" if direction == "forward" else "_backward"
            rate = device.flops(self.training.dtype) * device.efficiency[f"{name}{turned}"] * saturation
            time_s = np.maximum(time_s, 2 * part.rows * part.columns * reduction * part.groups / rate)
        turned = "" if direction == "forward" else "_backward"
        linear = device.flops(self.training.dtype) * device.efficiency[f"linear{turned}"]
        return np.maximum(time_s, unknown_flops(layer, part, direction) / linear) + device.kernel_s
