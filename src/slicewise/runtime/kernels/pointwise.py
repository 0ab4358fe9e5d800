"""Element-wise layers: the operator itself, random masks, and the few that exist here only."""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.graph.dims import ONE, Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import box
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, operator_name, part_number, plain, stream


def elementwise(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    special = {
        "dropout": dropout,
        "feature_dropout": dropout,
        "drop_path": dropout,
        "expand": _stretched,
        "repeat": _stretched,
        "embedding": _lookup,
        "view_as_complex": _paired,
        "root": _root,
        "ratio": _ratio,
    }
    return special.get(operator_name(layer), plain)(layer, slicing, context)


def dropout(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Masks differ between slices and agree where ranks repeat the same work, or slice a dim that the mask has not."""
    arguments = layer.options["arguments"]
    probability = float(arguments["p"])
    letters = layer.options.get("mask", layer.dims)
    number = stream(layer.name, part_number(slicing, letters, context.groups))
    scale = arguments.get("scale", 1 / (1 - probability) if probability < 1 else 0.0)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        if not context.training() or (probability == 0.0 and scale == 1.0):
            return x
        mask = x.new_empty([1 if letter == ONE else size for letter, size in zip(letters, x.shape, strict=True)])
        mask.bernoulli_(1 - probability, generator=context.generator(number))
        return x * mask.mul_(scale)

    return kernel


def _stretched(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    shape = [stop - start for start, stop in context.output_box(layer, slicing)]
    repeats = operator_name(layer) == "repeat"

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        if not repeats:
            return x.expand(shape)
        given = [1] * (len(shape) - x.dim()) + list(x.shape)
        return x.repeat([new // old for new, old in zip(shape, given, strict=True)])

    return kernel


def _lookup(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Of a rank that has some rows of the table: zeros where another has the row."""
    axes = [axis for axis, dim in enumerate(slicing) if dim is Dim.C]
    if not axes:
        return plain(layer, slicing, context)
    call, values = caller(layer), bound(layer, slicing, context)
    mesh, rank = context.groups.mesh, context.groups.rank
    start, stop = box(layer.weights[0].shape, layouts(layer, slicing).weights[0], mesh, rank)[0]

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        padding = given["padding_idx"]
        own = (given["indices"] >= start) & (given["indices"] < stop)
        given["indices"] = torch.where(own, given["indices"] - start, 0)
        given["padding_idx"] = padding - start if start <= padding < stop else -1
        rows: Tensor = call(given) * own.unsqueeze(-1)
        return rows

    return kernel


def _paired(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Pairs lie side by side, which `contiguous()` of the model's own, a copy that vanished, may have seen to."""
    return lambda inputs: torch.view_as_complex(inputs[0].contiguous())


def _root(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The square root, with gradient 0 at 0, as norms have it."""

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        zero = x == 0
        return torch.where(zero, 0.0, torch.where(zero, 1.0, x).sqrt())

    return kernel


def _ratio(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """A mean from a sum and a count."""
    return lambda inputs: inputs[0][0] / inputs[0][1]
