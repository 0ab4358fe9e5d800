"""What one rank computes for each layer: the model's own operators on its part, with the slicing's corrections."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from slicewise.graph.dims import BATCH, Dim
from slicewise.graph.layer import Kind, Layer
from slicewise.partition.layout import Slicing, layouts, statistics_axes
from slicewise.partition.parts import box, boxes
from slicewise.runtime.groups import Groups
from slicewise.runtime.halo import Join, compile_join, on_joined
from slicewise.runtime.norm import SharedStatistics, shared_norm

Kernel = Callable[[Sequence[Tensor]], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What kernels need beside their layer."""

    groups: Groups
    tensors: Mapping[str, Tensor]  # weights (local leaves) and buffers (local parts), by name
    training: Callable[[], bool]
    generator: Callable[[int], torch.Generator]  # random numbers of this step for a stream


def compile_kernel(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    if layer.kind in (Kind.INPUT, Kind.OUTPUT, Kind.FORK):
        return lambda inputs: inputs[0]
    if layer.kind is Kind.FLATTEN:
        return lambda inputs: torch.flatten(inputs[0], 1)
    if layer.kind is Kind.NORM:
        return _norm(layer, slicing, context)
    if layer.kind is Kind.CONV:
        return _convolution(layer, slicing, context)
    if layer.kind is Kind.POOL:
        return _pooling(layer, slicing, context)
    if layer.kind is Kind.LINEAR:
        return _linear(layer, slicing, context)
    if _operator_name(layer) == "dropout":
        return _dropout(layer, slicing, context)
    if layer.kind is Kind.OPAQUE:
        return _opaque(layer, context)
    return _plain(layer, context)


def _plain(layer: Layer, context: Context) -> Kernel:
    """The operator as captured, on the rank's parts."""
    operator = _operator(layer, in_place=bool(layer.options.get("in_place")))
    schema = _operator(layer)._schema
    named = {argument.name: argument.kwarg_only for argument in schema.arguments}
    arguments = layer.options["arguments"]
    positional = [value for name, value in arguments.items() if not named[name]]
    keywords = {name: value for name, value in arguments.items() if named[name]}

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        keyword_values = {name: _resolve(value, inputs, context) for name, value in keywords.items()}
        result: Tensor = operator(*_resolve(positional, inputs, context), **keyword_values)
        return result

    return kernel


def _opaque(layer: Layer, context: Context) -> Kernel:
    """An operator nobody taught us: the same on every rank, random numbers included; it is told the mode."""
    stream = _stream(layer.name, 0)
    arguments = {name: _sized(value, layer) for name, value in layer.options["arguments"].items()}
    modes = [name for name in ("train", "training") if name in arguments]

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        now = {**arguments, **{name: arguments[name] and context.training() for name in modes}}
        call = _plain(replace(layer, options={**layer.options, "arguments": now}), context)
        with torch.random.fork_rng():
            torch.manual_seed(context.generator(stream).initial_seed())
            return call(inputs)

    return kernel


def _sized(value: Any, layer: Layer) -> Any:
    """References to the batch -> numbers."""
    if isinstance(value, list):
        return [_sized(item, layer) for item in value]
    if isinstance(value, dict) and "batch" in value:
        tensors = [*zip(layer.input_dims, layer.input_shapes, strict=True), (layer.dims, layer.shape)]
        return value["batch"] * next(shape[0] for dims, shape in tensors if dims[:1] == BATCH)
    return value


def _linear(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    operator, arguments = _operator(layer), layer.options["arguments"]
    keeps_bias = _keeps_bias(layer, slicing, context)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        x, weight, bias = _resolve(list(arguments.values()), inputs, context)
        y: Tensor = operator(x, weight, _once(bias, keeps_bias))
        return y

    return kernel


def _convolution(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Sliced dims are padded by the join, not by the operator; a transposed one is cropped to its part."""
    operator = _operator(layer)
    sliced = [dim for dim in layer.windows if dim in slicing]
    join = compile_join(layer, slicing, context.groups, sliced, fill=0.0)
    keeps_bias = _keeps_bias(layer, slicing, context)
    arguments = dict(layer.options["arguments"])
    arguments["groups"] = _local_groups(layer, slicing, context)
    space = list(layer.windows)
    padding = list(arguments["padding"])
    for dim in sliced:
        padding[space.index(dim)] = 0
    arguments["padding"] = padding
    crop = _crop(layer, slicing, context, sliced, join) if "output_padding" in arguments else None

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        x, weight, bias, *rest = _resolve(list(arguments.values()), inputs, context)
        y = on_joined(x, join, lambda joined: operator(joined, weight, _once(bias, keeps_bias), *rest))
        return y[crop].contiguous() if crop is not None else y

    return kernel


def _crop(
    layer: Layer, slicing: Slicing, context: Context, sliced: list[Dim], join: Join | None
) -> tuple[slice, ...] | None:
    """Where this rank's output lies in what a transposed convolution of its region returns."""
    mesh, rank, placed = context.groups.mesh, context.groups.rank, layouts(layer, slicing)
    region = join.region if join else box(layer.input_shapes[0], placed.inputs[0], mesh, rank)
    output = box(layer.shape, placed.output, mesh, rank)
    slices, cuts = [slice(None)] * len(layer.shape), False
    for dim in sliced:
        window, position = layer.windows[dim], layer.dims.index(dim)
        low, high = region[layer.input_dims[0].index(dim)]
        start, stop = output[position]
        origin = low * window.stride - window.padding
        length = (high - low - 1) * window.stride + window.reach + window.output_padding
        slices[position] = slice(start - origin, stop - origin)
        cuts |= (start - origin, stop - origin) != (0, length)
    return tuple(slices) if cuts else None


def _pooling(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The join takes over padding and ceil_mode wherever space is sliced."""
    name, arguments = _operator_name(layer), dict(layer.options["arguments"])
    if not any(dim in slicing for dim in layer.windows):
        return _plain(layer, context)
    fill = float("-inf") if name.startswith("max") else 0.0
    join = compile_join(layer, slicing, context.groups, layer.windows, fill)
    if name.startswith("adaptive"):
        part = box(layer.shape, layouts(layer, slicing).output, context.groups.mesh, context.groups.rank)
        arguments["output_size"] = [stop - start for start, stop in part[2:]]
    else:
        arguments["padding"] = [0] * len(layer.windows)
        arguments["ceil_mode"] = False
    operator = _operator(layer)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        x, *rest = _resolve(list(arguments.values()), inputs, context)
        return on_joined(x, join, lambda joined: operator(joined, *rest))

    return kernel


def _norm(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    arguments = layer.options["arguments"]
    batch_norm = _operator_name(layer) == "batch_norm"
    axes = statistics_axes(layer, slicing)
    in_training = bool(arguments.get("training", True))  # captured in training mode: False is a frozen norm
    operator = _operator(layer)
    statistics = _statistics(layer, slicing, axes, context) if axes else None

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        named = dict(zip(arguments, _resolve(list(arguments.values()), inputs, context), strict=True))
        x, mean, variance = named["input"], named["running_mean"], named["running_var"]
        training = (context.training() and in_training) or mean is None or not batch_norm
        if training and mean is not None:
            _count_batch(arguments, context)
        if statistics is None or not training:
            named["training" if batch_norm else "use_input_stats"] = training
            plain: Tensor = operator(*named.values())
            return plain
        y, batch_mean, batch_variance = shared_norm(x, named["weight"], named["bias"], named["eps"], statistics)
        if mean is not None:
            count = statistics.count
            mean.lerp_(batch_mean.flatten(), named["momentum"])
            variance.lerp_(batch_variance.flatten() * (count / max(count - 1, 1)), named["momentum"])
        return y

    return kernel


def _statistics(layer: Layer, slicing: Slicing, axes: tuple[int, ...], context: Context) -> SharedStatistics:
    groups = context.groups
    start, stop = boxes(layer.shape, layouts(layer, slicing).output, groups.mesh)
    dims = tuple(position for position, letter in enumerate(layer.dims) if letter in layer.statistics)
    counts = (stop - start)[:, list(dims)].prod(axis=1)
    return SharedStatistics(
        layer=layer.name,
        group=groups.of(axes),
        counts=tuple(int(counts[rank]) for rank in groups.members(axes)),
        dims=dims,
    )


def _count_batch(arguments: Mapping[str, Any], context: Context) -> None:
    counter = arguments["running_mean"]["buffer"].replace("running_mean", "num_batches_tracked")
    if counter in context.tensors:
        context.tensors[counter].add_(1)


def _dropout(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """Masks differ between slices and agree where ranks repeat the same work."""
    arguments = layer.options["arguments"]
    probability = float(arguments["p"]) if arguments["train"] else 0.0
    groups = context.groups
    stream = 0
    for axis, dim in enumerate(slicing):
        if dim is not None:
            stream = stream * groups.mesh.sizes[axis] + int(groups.mesh.coordinates[groups.rank, axis])
    stream = _stream(layer.name, stream)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        if not context.training() or probability == 0.0:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - probability, generator=context.generator(stream))
        return x * mask.div_(1 - probability) if probability < 1 else x * 0.0

    return kernel


def _stream(name: str, part: int) -> int:
    number = 0
    for letter in name.encode():
        number = (number * 257 + letter) % (2**31 - 1)
    return (number * 65537 + part) % (2**31 - 1)


def _keeps_bias(layer: Layer, slicing: Slicing, context: Context) -> bool:
    """A bias under C slicing is added once: by the first rank along the axes that slice C."""
    position = context.groups.mesh.coordinates[context.groups.rank]
    return not any(position[axis] for axis, dim in enumerate(slicing) if dim is Dim.C)


def _once(bias: Tensor | None, keeps: bool) -> Tensor | None:
    return bias if bias is None or keeps else _Silent.apply(bias)


class _Silent(torch.autograd.Function):
    """Zero in value, with the gradient of the real bias: every rank sees the whole gradient of the output."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor) -> Tensor:
        return torch.zeros_like(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def _local_groups(layer: Layer, slicing: Slicing, context: Context) -> int:
    axes = tuple(axis for axis, dim in enumerate(slicing) if dim is Dim.F)
    return layer.groups // context.groups.mesh.group_size(axes) if layer.groups > 1 else 1


def _operator_name(layer: Layer) -> str:
    return str(layer.options["op"]).split(".")[1]


def _operator(layer: Layer, in_place: bool = False) -> Any:
    namespace, name, overload = str(layer.options["op"]).split(".")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_" if in_place else name)
    return getattr(packet, overload)


def _resolve(value: Any, inputs: Sequence[Tensor], context: Context) -> Any:
    """References in captured arguments -> tensors."""
    if isinstance(value, dict):
        if "input" in value:
            return inputs[value["input"]]
        return context.tensors[value.get("weight") or value["buffer"]]
    if isinstance(value, list):
        return [_resolve(item, inputs, context) for item in value]
    if isinstance(value, str) and value.startswith("torch."):  # a dtype or a memory format, saved by name
        return getattr(torch, value.removeprefix("torch."))
    return value
