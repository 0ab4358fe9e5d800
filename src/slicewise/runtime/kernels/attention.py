"""Attention: torch's own kernel on the rank's queries and heads, with all keys that they look at."""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.devices import seeded
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, part_number, stream


def attention(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Some of the queries: what each may see of the past is spelled out. Scores are dropped as a dropout drops."""
    call, values = caller(layer), bound(layer, slicing, context)
    arguments = layer.options["arguments"]
    start, stop = context.output_box(layer, slicing)[-2]
    past = _past(layer, start, stop, context) if arguments["is_causal"] and Dim.Q in slicing else None
    drops = float(arguments["dropout_p"]) > 0
    number = stream(layer.name, part_number(slicing, layer.dims, context.groups))

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        if past is not None:
            given.update(attn_mask=past, is_causal=False)
        if not drops:
            return call(given)
        if not context.training():
            return call({**given, "dropout_p": 0.0})
        with seeded(context.device, context.drawn(number)):
            return call(given)

    return kernel


def _past(layer: Layer, start: int, stop: int, context: Context) -> Tensor:
    """Query q looks at the keys 0 .. q; of queries [start, stop)."""
    keys = torch.arange(layer.input_shapes[1][-2], device=context.device)
    return keys <= torch.arange(start, stop, device=context.device)[:, None]
