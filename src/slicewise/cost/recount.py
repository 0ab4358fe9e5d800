"""A plan's memory a second time, written from docs/cost.md alone, as `recost.py` has its seconds."""

from collections.abc import Mapping
from math import prod

from slicewise.cluster.cluster import Cluster
from slicewise.cost.training import PLAIN, Training
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing

Readers = dict[str, list[Layer]]  # of each layer's output

_FREE = {Kind.INPUT, Kind.OUTPUT, Kind.FORK, Kind.FLATTEN, Kind.VIEW, Kind.CROP}
_PRODUCTS = {Kind.CONV, Kind.LINEAR, Kind.MATMUL, Kind.ATTENTION}
_KEEP_INPUT = _PRODUCTS | {Kind.NORM, Kind.POOL}


def recount_memory(
    graph: LayerGraph, cluster: Cluster, slicings: Mapping[str, Slicing], training: Training = PLAIN
) -> int:
    """`peak_memory_bytes`: what all layers keep, and the most that any needs while it runs."""
    narrow = training.dtype in ("bf16", "fp16")
    item_bytes = 2 if narrow else 4
    per_weight = 4 * (2 + {"sgd": 0, "momentum": 1, "adam": 2}[training.optimizer])
    sizes = [axis.size for axis in cluster.mesh.axes]
    readers: Readers = {}
    for layer in graph:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)
    kept, passing = 0, 0
    for layer in graph:
        slicing = slicings[layer.name]
        inputs = [_items(d, s, slicing, sizes) for d, s in zip(layer.input_dims, layer.input_shapes, strict=True)]
        output = _items(layer.dims, layer.shape, slicing, sizes)
        for weight in layer.weights:
            if not weight.again:
                each = (per_weight if weight.trained else 4) + (2 if narrow else 0)
                kept += each * _items(weight.dims, weight.shape, slicing, sizes)
        if layer.name in graph.gradients:
            kept += item_bytes * _for_backward(readers, layer, inputs, output, training)
        spelled_out = _spelled_out(layer, slicing, inputs, sizes) if layer.kind is Kind.ATTENTION else 0
        passing = max(passing, item_bytes * (sum(inputs) + output + spelled_out))
    return kept + passing


def _spelled_out(layer: Layer, slicing: Slicing, inputs: list[int], sizes: list[int]) -> int:
    """Attention sliced by key: three times its scores. In a ring: of 128 queries, and four parts of keys and values."""
    letter, keys = layer.input_dims[1][-2], layer.input_shapes[1][-2]
    if letter not in slicing:
        return 0
    part = _items(letter, (keys,), slicing, sizes)
    rows, groups = (_items(layer.dims[cut], layer.shape[cut], slicing, sizes) for cut in (slice(-2, -1), slice(-2)))
    if letter == "Q":
        return 3 * min(rows, 128) * groups * part + 4 * (inputs[1] + inputs[2])
    return 3 * rows * groups * part


def _for_backward(readers: Readers, layer: Layer, inputs: list[int], output: int, training: Training) -> int:
    """Items that backward reads again."""
    if training.recompute:
        return output if layer.kind in _PRODUCTS and _read_by(readers, layer.name, set(Kind) - _FREE) else 0
    items = 0
    if layer.kind in _KEEP_INPUT:
        items += sum(inputs[:3] if layer.kind in (Kind.MATMUL, Kind.ATTENTION) else inputs[:1])
    function = layer.kind is Kind.ATTENTION or (layer.kind is Kind.ELEMENTWISE and len(layer.inputs) == 1)
    return items + output if function and not _read_by(readers, layer.name, _KEEP_INPUT) else items


def _read_by(readers: Readers, name: str, kinds: set[Kind]) -> bool:
    """Whether a layer of these kinds reads it, looking through free layers."""
    return any(
        _read_by(readers, reader.name, kinds) if reader.kind in _FREE else reader.kind in kinds
        for reader in readers.get(name, ())
    )


def _items(dims: str, shape: tuple[int, ...], slicing: Slicing, sizes: list[int]) -> int:
    """Of the largest part."""
    return prod(
        -(-extent // prod(size for size, dim in zip(sizes, slicing, strict=True) if dim == letter))
        for letter, extent in zip(dims, shape, strict=True)
    )
