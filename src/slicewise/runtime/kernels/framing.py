"""Pads, crops, rolls and upsampling: what a rank's part of the output reads, joined, and cut to size."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import box
from slicewise.runtime.halo import compile_join, on_joined
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, operator_name, plain


def pad(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The join pads the dims that are sliced, the operator the others."""
    sliced = [dim for dim in layer.windows if dim in slicing]
    if not sliced:
        return plain(layer, slicing, context)
    arguments = layer.options["arguments"]
    value = float(arguments["value"] or 0.0)
    join = compile_join(layer, slicing, context.groups, sliced, fill=value)
    rest = list(arguments["pad"])
    for dim in sliced:
        behind = len(layer.dims) - 1 - layer.dims.index(dim)
        rest[2 * behind : 2 * behind + 2] = [0, 0]

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        joined = on_joined(inputs[0], join, lambda x: x)
        return F.pad(joined, rest, value=value) if any(rest) else joined

    return kernel


def crop(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    if not any(dim in slicing for dim in layer.windows):
        return _picked(layer)
    ((dim, window),) = layer.windows.items()
    join = compile_join(layer, slicing, context.groups, [dim], fill=0.0)
    steps = [slice(None)] * len(layer.shape)
    steps[layer.dims.index(dim)] = slice(None, None, window.stride)
    return lambda inputs: on_joined(inputs[0], join, lambda x: x[tuple(steps)])


def roll(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The join moves along the dims that are sliced, the operator along the others."""
    sliced = [dim for dim in layer.windows if dim in slicing]
    join = compile_join(layer, slicing, context.groups, sliced, fill=0.0) if sliced else None
    arguments = layer.options["arguments"]
    moved = dict(zip(arguments["dims"], arguments["shifts"], strict=True))
    rest = {dim: shift for dim, shift in moved.items() if layer.dims[dim] not in sliced}

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        joined = on_joined(inputs[0], join, lambda x: x)
        return joined.roll(list(rest.values()), list(rest)) if rest else joined

    return kernel


def _picked(layer: Layer) -> Kernel:
    """A view of the input."""
    arguments = layer.options["arguments"]
    if operator_name(layer) == "select":
        return lambda inputs: inputs[0].select(arguments["dim"], arguments["index"])
    slices = [slice(None)] * len(layer.shape)
    slices[arguments["dim"]] = slice(arguments["start"], arguments["end"], arguments["step"])
    return lambda inputs: inputs[0][tuple(slices)]


def upsample(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The operator on the region that the part reads gives the part, and around it what neighbours compute better."""
    sliced = [dim for dim in layer.windows if dim in slicing]
    if not sliced:
        return plain(layer, slicing, context)
    join = compile_join(layer, slicing, context.groups, sliced, fill=0.0)
    mesh, rank = context.groups.mesh, context.groups.rank
    own = box(layer.input_shapes[0], layouts(layer, slicing).inputs[0], mesh, rank)
    region, part = join.region if join else own, context.output_box(layer, slicing)
    sizes, slices = list(layer.shape[2:]), [slice(None)] * len(layer.shape)
    for dim in sliced:
        factor, place = layer.windows[dim].stride, layer.dims.index(dim)
        if not layer.windows[dim].transposed:
            continue
        low, high = region[place]
        start, stop = part[place]
        sizes[place - 2] = (high - low) * factor
        slices[place] = slice(start - low * factor, stop - low * factor)
    call, values = caller(layer), bound(layer, slicing, context)
    changes = {"output_size": sizes} if layer.options["arguments"].get("output_size") else {}

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = {**values(inputs), **changes}
        first = next(iter(given))
        y = on_joined(given[first], join, lambda x: call({**given, first: x}))
        return y[tuple(slices)].contiguous()

    return kernel
