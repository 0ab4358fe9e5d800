"""Concats over a growing list, one joined to the last.

A dense block concatenates everything so far again and again: cat(a, b), cat(a, b, c), cat(a, b, c, d). Every tensor
then has a dozen readers, and eliminating any layer leaves a table over all of them. The same values come from joining
one tensor at a time: cat(ab, c), cat(abc, d); each tensor has two readers, and the graph stays narrow.
"""

from collections.abc import Iterable
from dataclasses import replace

from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer

CAT = "aten.cat.default"  # stacks are concats too, along a dim that they make


def pairwise_concats(layers: Iterable[Layer]) -> list[Layer]:
    """Every concat whose list starts with an earlier one's reads that one instead."""
    result: list[Layer] = []
    earlier: dict[tuple[object, tuple[str, ...]], Layer] = {}
    for layer in layers:
        if layer.kind is Kind.CONCAT and layer.options["op"] == CAT:
            dim, inputs = layer.options["arguments"].get("dim"), layer.inputs
            lengths = range(len(inputs) - 1, 1, -1)
            known = next((earlier[dim, inputs[:n]] for n in lengths if (dim, inputs[:n]) in earlier), None)
            earlier[dim, inputs] = layer
            if known is not None:
                layer = _joined(layer, known, skip=_length(known, earlier))
        result.append(layer)
    return result


def _length(concat: Layer, earlier: dict[tuple[object, tuple[str, ...]], Layer]) -> int:
    """How many tensors a concat joins in all."""
    return next(len(inputs) for (_, inputs), layer in earlier.items() if layer is concat)


def _joined(layer: Layer, first: Layer, skip: int) -> Layer:
    """`layer` reading `first` in place of its first `skip` inputs."""
    inputs = (first.name, *layer.inputs[skip:])
    arguments = {**layer.options["arguments"], "tensors": [{"input": number} for number in range(len(inputs))]}
    return replace(
        layer,
        inputs=inputs,
        input_shapes=(first.shape, *layer.input_shapes[skip:]),
        input_dims=(first.dims, *layer.input_dims[skip:]),
        options={**layer.options, "arguments": arguments},
    )
