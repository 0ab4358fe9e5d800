"""Layers that every rank computes whole: operators nobody taught us, and what is made of weights alone."""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.devices import seeded
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, stream
from slicewise.runtime.kernels.operators import operator


def repeated(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The same on every rank, random numbers included; the operator is told the mode."""
    call, values = caller(layer), bound(layer, slicing, context)
    arguments = layer.options["arguments"]
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
