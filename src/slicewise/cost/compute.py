"""Seconds of a layer's own work on one device: a roofline whose efficiency falls for small shards."""

from dataclasses import dataclass
from math import prod

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import Kind, Layer
from slicewise.partition.layout import LayerLayouts, Slicing, layouts
from slicewise.partition.parts import largest

ITEM_BYTES = 4  # fp32
_FREE = (Kind.INPUT, Kind.OUTPUT, Kind.FORK, Kind.FLATTEN)  # views: nothing is computed or copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The largest share of a layer that one device gets (that of rank 0: chunks only get smaller)."""

    inputs: tuple[int, ...]  # items
    output: int
    weights: tuple[int, ...]
    rows: int  # the layer as a matrix product: rows x reduction times reduction x columns, per group
    columns: int
    reduction: int
    groups: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.reduction * self.groups


def shard(layer: Layer, slicing: Slicing, mesh: Mesh, placed: LayerLayouts | None = None) -> Shard:
    placed = placed or layouts(layer, slicing)
    output = largest(layer.shape, placed.output, mesh)
    inputs = [largest(shape, held, mesh) for shape, held in zip(layer.input_shapes, placed.inputs, strict=True)]
    weights = [largest(weight.shape, held, mesh) for weight, held in zip(layer.weights, placed.weights, strict=True)]
    rows = columns = reduction = groups = 1
    if layer.kind in (Kind.CONV, Kind.LINEAR):
        transposed = any(window.transposed for window in layer.windows.values())
        dims, held = (layer.input_dims[0], inputs[0]) if transposed else (layer.dims, output)
        rows = prod(size for letter, size in zip(dims, held, strict=True) if letter not in "FC")
        channel = layer.weights[0].dims.index("F")
        filters = weights[0][channel]
        groups = max(1, layer.groups * filters // layer.weights[0].shape[channel])
        columns = max(1, filters // groups)
        reduction = prod(weights[0]) // filters
    return Shard(
        inputs=tuple(prod(held) for held in inputs),
        output=prod(output),
        weights=tuple(prod(held) for held in weights),
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

    def forward_s(self, layer: Layer, part: Shard) -> float:
        if layer.kind in _FREE:
            return 0.0
        return self._kernel_s(layer, part, "", sum(part.inputs) + part.output + sum(part.weights))

    def backward_s(self, layer: Layer, part: Shard, input_gradient: bool) -> float:
        """A product has two, for input and weight, each as many FLOPs as forward; other layers make one pass."""
        if layer.kind in _FREE:
            return 0.0
        traffic = sum(part.inputs) + part.output + sum(part.weights)
        passes = int(bool(layer.weights)) + int(input_gradient)
        if layer.kind not in (Kind.CONV, Kind.LINEAR):
            passes = min(passes, 1)
        return passes * self._kernel_s(layer, part, "_backward", traffic)

    def update_s(self, part: Shard) -> float:
        """Read the gradient, read and write the weight."""
        device = self.cluster.device
        if not part.weights:
            return 0.0
        return (
            3 * ITEM_BYTES * sum(part.weights) / device.memory_bytes_per_s + device.kernel_s
        ) * self.cluster.slowdown

    def _kernel_s(self, layer: Layer, part: Shard, direction: str, items: int) -> float:
        device = self.cluster.device
        time_s = items * ITEM_BYTES / device.memory_bytes_per_s
        if layer.kind in (Kind.CONV, Kind.LINEAR):
            saturation = 1.0
            for size, half in zip((part.rows, part.columns, part.reduction), device.half_size, strict=True):
                saturation *= size / (size + half)
            family = "conv3d" if len(layer.windows) == 3 and "conv3d" in device.efficiency else layer.kind.value
            rate = device.peak_flops_per_s * device.efficiency[f"{family}{direction}"] * saturation
            time_s = max(time_s, part.flops / rate)
        return (time_s + device.kernel_s) * self.cluster.slowdown
