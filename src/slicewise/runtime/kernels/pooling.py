"""Pooling: the join takes over padding and ceil_mode wherever space is sliced."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.graph.window import Window
from slicewise.partition.layout import Slicing
from slicewise.partition.parts import Box
from slicewise.runtime.constants import Constant
from slicewise.runtime.halo import compile_join, on_joined
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, operator_name, plain


def pooling(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    if not any(dim in slicing for dim in layer.windows):
        return plain(layer, slicing, context)
    name = operator_name(layer)
    part = context.output_box(layer, slicing)
    fill = 0.0 if name.startswith(("avg", "adaptive_avg")) else float("-inf")
    join = compile_join(layer, slicing, context.groups, layer.windows, fill)
    call, values = caller(layer), bound(layer, slicing, context)
    correction: Constant | None = None
    if name.startswith("adaptive"):
        changes: dict[str, Any] = {"output_size": [stop - start for start, stop in part[2:]]}
    else:
        changes = {"padding": [0] * len(layer.windows), "ceil_mode": False}
        if name.startswith("avg"):
            changes["count_include_pad"] = True
            correction = _correction(layer, part)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = {**values(inputs), **changes}
        y = on_joined(given["self"], join, lambda x: call({**given, "self": x}))
        return y if correction is None else y * correction.like(y)

    return kernel


def _correction(layer: Layer, part: Box) -> Constant | None:
    """What an average over a full window is off by: windows over the borders divide by fewer positions."""
    arguments = layer.options["arguments"]
    if arguments.get("divisor_override"):
        return None
    factor = torch.ones((), dtype=torch.float64)
    for dim, window in layer.windows.items():
        extent = layer.input_shapes[0][layer.input_dims[0].index(dim)]
        counted = _counts(window, extent, part[layer.dims.index(dim)], arguments["count_include_pad"])
        factor = factor.unsqueeze(-1) * (window.kernel / counted)
    return None if bool((factor == 1).all()) else Constant(factor)


def _counts(window: Window, extent: int, outputs: tuple[int, int], with_padding: bool) -> Tensor:
    """Per output position, how many positions of the window count."""
    start = torch.arange(*outputs) * window.stride - window.padding
    border = window.padding if with_padding else 0
    stop = torch.clamp(start + window.kernel, max=extent + border)
    return (stop - torch.clamp(start, min=-border)).to(torch.float64)
