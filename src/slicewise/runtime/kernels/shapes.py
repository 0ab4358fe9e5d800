"""Layers that give the input's items other dims, or add them up."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.kernels.calls import Context, Kernel, operator_name, plain

_PERMUTES = ("permute", "transpose", "t", "mT", "movedim", "moveaxis", "swapaxes", "swapdims")


def view(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """A permutation as captured; anything else is told by the shape of the rank's part."""
    if operator_name(layer) in _PERMUTES:
        return plain(layer, slicing, context)
    shape = [stop - start for start, stop in context.output_box(layer, slicing)]
    return lambda inputs: inputs[0].reshape(shape)


def reduction(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """This rank's summand. Of a mean, too: what is divided by the whole count adds up to the whole mean."""
    arguments = layer.options["arguments"]
    dims, keep, squares = tuple(arguments["dims"]), arguments["keep"], arguments.get("squares", False)
    whole = prod(layer.input_shapes[0][dim] for dim in dims)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        if not arguments["mean"]:
            return torch.sum(x.square() if squares else x, dims, keepdim=keep)
        count = prod(x.shape[dim] for dim in dims)
        mean = torch.mean(x, dims, keepdim=keep)  # not the sum, which may leave a narrow dtype's range
        return mean if count == whole else mean * (count / whole)

    return kernel
