"""Seconds of a layer's own work on one device: a roofline whose efficiency falls for small shards."""

from dataclasses import dataclass

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.training import PLAIN, WEIGHT_BYTES, Training
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The largest share of a layer that one device gets (that of rank 0: chunks only get smaller), per choice."""

    inputs: tuple[Ints, ...]  # items
    output: Ints
    weights: tuple[Ints, ...]
    rows: Ints  # the layer as a matrix product: rows x reduction times reduction x columns, per group
    columns: Ints
    reduction: Ints
    groups: Ints

    @property
    def flops(self) -> Ints:
        return 2 * self.rows * self.columns * self.reduction * self.groups

    @property
    def weight_items(self) -> Ints:
        return sum(self.weights, np.zeros_like(self.output))


def shares(layer: Layer, choices: Choices) -> Share:
    """Nested ceilings are one: ceil(ceil(e / a) / b) = ceil(e / (a b))."""
    degrees = {dim: choices.degrees(dim) for dim in Dim}
    one = np.ones(len(choices), dtype=np.int64)

    def part(dims: str, shape: tuple[int, ...], without: str = "") -> Ints:
        items = one
        for letter, size in zip(dims, shape, strict=True):
            if letter not in without:
                items = items * (-(-size // degrees[Dim(letter)]) if letter in degrees else size)
        return items

    inputs = tuple(part(dims, shape) for dims, shape in zip(layer.input_dims, layer.input_shapes, strict=True))
    weights = tuple(part(weight.dims, weight.shape) for weight in layer.weights)
    rows = columns = reduction = groups = one
    if layer.kind.has(Trait.PRODUCT):
        transposed = any(window.transposed for window in layer.windows.values())
        dims, shape = (layer.input_dims[0], layer.input_shapes[0]) if transposed else (layer.dims, layer.shape)
        rows = part(dims, shape, without="FC")
        dims, shape = layer.factor
        all_filters = shape[dims.index("F")]
        filters = part("F", (all_filters,))
        groups = np.maximum(1, layer.groups * filters // all_filters)
        columns = np.maximum(1, filters // groups)
        reduction = part(dims, shape) // filters
    return Share(
        inputs=inputs,
        output=part(layer.dims, layer.shape),
        weights=weights,
        rows=rows,
        columns=columns,
        reduction=reduction,
        groups=groups,
    )


@dataclass(frozen=True, slots=True)
class AnalyticCompute:
    """time = max(FLOPs / (peak * efficiency * saturation), bytes / memory bandwidth) + kernel overhead,

    saturation = product over the matrix's three dims of size / (size + half size).
    """

    cluster: Cluster
    training: Training = PLAIN

    def forward_s(self, layer: Layer, part: Share) -> Floats:
        if layer.kind.has(Trait.FREE):
            return np.zeros(part.output.shape)
        return self._kernel_s(layer, part, "")

    def backward_s(self, layer: Layer, part: Share, passes: int) -> Floats:
        """`passes` like forward, one per operand that wants a gradient; recomputed layers run forward once more."""
        if layer.kind.has(Trait.FREE):
            return np.zeros(part.output.shape)
        again = self.forward_s(layer, part) if self.recomputes(layer) else 0.0
        return passes * self._kernel_s(layer, part, "_backward") + again

    def update_s(self, layer: Layer, part: Share) -> Floats:
        """Read the gradient, read and write the weight and what the optimizer keeps of it."""
        device = self.cluster.device
        updated = [items for weight, items in zip(layer.weights, part.weights, strict=True) if weight.updated]
        if not updated:
            return np.zeros(part.output.shape)
        items: Ints = (3 + 2 * self.training.state_items) * np.sum(updated, axis=0)
        return (WEIGHT_BYTES * items / device.memory_bytes_per_s + device.kernel_s) * self.cluster.slowdown

    def recomputes(self, layer: Layer) -> bool:
        return self.training.recompute and not layer.kind.has(Trait.PRODUCT) and not layer.kind.has(Trait.FREE)

    def _kernel_s(self, layer: Layer, part: Share, direction: str) -> Floats:
        device = self.cluster.device
        items = sum(part.inputs, part.output)
        bytes_touched = items * self.training.item_bytes + part.weight_items * WEIGHT_BYTES
        time_s: Floats = bytes_touched / device.memory_bytes_per_s
        if layer.kind.has(Trait.PRODUCT):
            saturation = np.ones(part.output.shape)
            for size, half in zip((part.rows, part.columns, part.reduction), device.half_size, strict=True):
                saturation = saturation * (size / (size + half))
            family = "conv3d" if len(layer.windows) == 3 and "conv3d" in device.efficiency else layer.kind.value
            rate = device.flops(self.training.dtype) * device.efficiency[f"{family}{direction}"] * saturation
            time_s = np.maximum(time_s, part.flops / rate)
        return (time_s + device.kernel_s) * self.cluster.slowdown
