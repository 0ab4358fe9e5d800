"""Convolutions and linear layers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts, sync_axes
from slicewise.partition.parts import box
from slicewise.runtime.halo import Join, compile_join, on_joined
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller


def linear(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    call, values, once = caller(layer), bound(layer, slicing, context), _bias(layer, slicing, context)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        if given.get("bias") is not None:
            given["bias"] = once(given["bias"])
        return call(given)

    return kernel


def convolution(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Sliced dims are padded by the join, not by the operator; a transposed one is cropped to its part."""
    arguments = layer.options["arguments"]
    transposed = "output_padding" in arguments
    sliced = [dim for dim in layer.windows if dim in slicing]
    values, once = bound(layer, slicing, context), _bias(layer, slicing, context)
    changes: dict[str, Any] = {"groups": _local_groups(layer, slicing, context)}
    same = arguments["padding"] == "same"
    # padding that differs before and behind is the join's business as well
    joined = [dim for dim, window in layer.windows.items() if dim in sliced or (same and window.reach % 2 == 0)]
    if joined:
        changes["padding"] = [0 if dim in joined else window.padding for dim, window in layer.windows.items()]
    call = caller(layer, overload="default" if joined and not transposed else "")
    join = compile_join(layer, slicing, context.groups, joined, fill=0.0)
    crop = _crop(layer, slicing, context, sliced, join) if transposed else None
    # windows that leave gaps: a part may begin or end in one, where there is nothing but the bias
    gaps = transposed and any(layer.windows[dim].stride > layer.windows[dim].reach for dim in sliced)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = {**values(inputs), **changes}
        bias = None if given["bias"] is None else once(given["bias"])
        given["bias"] = None if gaps else bias
        y = on_joined(given["input"], join, lambda x: call({**given, "input": x}))
        y = F.pad(y, crop) if crop is not None else y
        return y + bias.view(-1, *[1] * len(layer.windows)) if gaps and bias is not None else y

    return kernel


def _crop(layer: Layer, slicing: Slicing, context: Context, sliced: list[Dim], join: Join | None) -> list[int] | None:
    """What to cut off (or add, where gaps follow) around what a transposed convolution of the region returns."""
    mesh, rank, placed = context.groups.mesh, context.groups.rank, layouts(layer, slicing)
    region = join.region if join else box(layer.input_shapes[0], placed.inputs[0], mesh, rank)
    output = context.output_box(layer, slicing)
    pads = [0] * (2 * len(layer.windows))
    for dim in sliced:
        window, position = layer.windows[dim], layer.dims.index(dim)
        low, high = region[layer.input_dims[0].index(dim)]
        start, stop = output[position]
        origin = low * window.stride - window.padding
        length = (high - low - 1) * window.stride + window.reach + window.output_padding
        behind = 2 * (len(layer.shape) - 1 - position)
        pads[behind : behind + 2] = [origin - start, stop - origin - length]
    return pads if any(pads) else None


def _local_groups(layer: Layer, slicing: Slicing, context: Context) -> int:
    axes = tuple(axis for axis, dim in enumerate(slicing) if dim is Dim.F)
    return layer.groups // context.groups.mesh.group_size(axes) if layer.groups > 1 else 1


def _bias(layer: Layer, slicing: Slicing, context: Context) -> Callable[[Tensor], Tensor]:
    """A bias under C slicing is added once: by the first rank along the axes that slice C.

    The others add zeros. Each rank sees the whole gradient of the output, so each copy of the bias gets its whole
    gradient, unless that will be summed over those axes anyway.
    """
    axes = [axis for axis, dim in enumerate(slicing) if dim is Dim.C]
    if not any(context.groups.mesh.coordinates[context.groups.rank, axis] for axis in axes):
        # a node in backward, as on the others: gradients are ready, and synced, at the same point on every rank
        return (lambda bias: bias.view_as(bias)) if axes else (lambda bias: bias)
    own = "weight" in (layer.options["arguments"].get("bias") or {})
    if own and not set(axes) & set(sync_axes(layer, slicing)):
        return lambda bias: _Silent.apply(bias)
    return lambda bias: bias * 0.0


class _Silent(torch.autograd.Function):
    """Zero in value, with the gradient of the real bias."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor) -> Tensor:
        return torch.zeros_like(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient
