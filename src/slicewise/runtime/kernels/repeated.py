"""Layers that every rank computes whole: operators nobody taught us, and what is made of weights and numbers alone."""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.errors import GraphError
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.devices import seeded
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, stream
from slicewise.runtime.kernels.operators import constant, operator


def repeated(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The same on every rank, random numbers included; the operator is told the mode."""
    arguments = layer.options["arguments"]
    if layer.options["op"] == "slicewise.constant":
        dtype = constant(arguments["dtype"])
        if not isinstance(dtype, torch.dtype):
            raise GraphError(f"{layer.name}: {dtype} is no dtype; a constant has one, such as torch.float32")
        numbers = torch.tensor(arguments["values"], dtype=dtype, device=context.device)
        return lambda inputs: numbers
    call, values = caller(layer), bound(layer, slicing, context)
    # a batch norm that keeps no statistics always uses the batch's
    always = "running_mean" in arguments and arguments["running_mean"] is None
    modes = [] if always else [name for name in ("train", "training") if arguments.get(name)]
    random = torch.Tag.nondeterministic_seeded in operator(layer).tags

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        given.update(dict.fromkeys(modes, context.training()))
        if not random:
            return call(given)
        with seeded(context.device, context.drawn(stream(layer.name))):
            return call(given)

    return kernel
