"""Norms: the operator itself where a rank has all that its statistics span, shared statistics elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from slicewise.errors import PlanError
from slicewise.graph.chunks import cut, refusal
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts, statistics_axes
from slicewise.partition.parts import boxes
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, operator_name
from slicewise.runtime.norm import SharedStatistics, shared_norm


def norm(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    axes = statistics_axes(layer, slicing)
    if operator_name(layer) in ("batch_norm", "instance_norm"):
        return _tracking(layer, slicing, context, axes)
    if axes:
        return _shared(layer, slicing, context, axes)
    call, values = caller(layer), bound(layer, slicing, context)
    changes = {"num_groups": _local_groups(layer, slicing, context)} if layer.groups > 1 else {}
    return lambda inputs: call({**values(inputs), **changes})


def _shared(layer: Layer, slicing: Slicing, context: Context, axes: tuple[int, ...]) -> Kernel:
    """Layer and group norm across ranks: whatever has statistics of its own becomes a channel."""
    values, spread = bound(layer, slicing, context), _spread(layer)
    groups = _local_groups(layer, slicing, context) if layer.groups > 1 else 1
    behind = min(layer.dims.index(letter) for letter in layer.statistics) - (layer.groups > 1)
    statistics = _statistics(layer, slicing, axes, context)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        x, weight, bias = given["input"], spread(given["weight"]), spread(given["bias"])
        y, _, _ = shared_norm(x.reshape(1, prod(x.shape[:behind]) * groups, -1), None, None, given["eps"], statistics)
        y = y.view(x.shape)
        if weight is not None:
            y = y * weight if bias is None else torch.addcmul(bias, y, weight)
        return y

    return kernel


def _tracking(layer: Layer, slicing: Slicing, context: Context, axes: tuple[int, ...]) -> Kernel:
    """Batch and instance norm: in training they may keep running statistics, in eval use them."""
    arguments = layer.options["arguments"]
    batch_norm = operator_name(layer) == "batch_norm"
    in_training = bool(arguments.get("training", True))  # captured in training mode: False is a frozen norm
    call, values = caller(layer), bound(layer, slicing, context)
    refused, chunks = refusal(layer), _chunks(layer, slicing, context)
    statistics = _statistics(layer, slicing, axes, context) if axes else None
    counter = _counter(arguments, context)

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = values(inputs)
        mean, variance = given["running_mean"], given["running_var"]
        training = (context.training() and in_training) or mean is None or not batch_norm
        tracks = training and mean is not None and not context.now.again
        if training and refused:
            raise PlanError(refused)
        if tracks and counter is not None:
            context.tensors[counter].add_(1)
        if statistics is None or not training:
            if training and mean is not None and not tracks:
                given |= {"running_mean": mean.clone(), "running_var": variance.clone()}  # to be thrown away
            given["training" if batch_norm else "use_input_stats"] = training
            return chunk_by_chunk(given) if training and len(chunks) > 1 else call(given)
        x, weight, bias = given["input"], given["weight"], given["bias"]
        if not batch_norm:  # each sample has channels of its own
            samples = len(x)
            x = x.reshape(1, -1, *x.shape[2:])
            weight, bias = (None if w is None else w.repeat(samples) for w in (weight, bias))
        y, batch_mean, batch_variance = shared_norm(x, weight, bias, given["eps"], statistics)
        if tracks:  # those of the first chunk, as DDP keeps them
            count = statistics.totals[0]
            unbiased = batch_variance[0] * (count / max(count - 1, 1))
            mean.lerp_(batch_mean[0].to(mean.dtype), given["momentum"])
            variance.lerp_(unbiased.to(variance.dtype), given["momentum"])
        return y.view(given["input"].shape)

    def chunk_by_chunk(given: dict[str, Any]) -> Tensor:
        """Running statistics are those of the first."""
        first, *others = given["input"].split(chunks)
        untracked = {**given, "running_mean": None, "running_var": None}
        return torch.cat([call(given | {"input": first}), *(call(untracked | {"input": part}) for part in others)])

    return kernel


def _statistics(layer: Layer, slicing: Slicing, axes: tuple[int, ...], context: Context) -> SharedStatistics:
    groups = context.groups
    start, stop = boxes(layer.shape, layouts(layer, slicing).output, groups.mesh)
    dims = [position for position, letter in enumerate(layer.dims) if letter in layer.statistics]
    counts = (stop - start)[:, dims].prod(axis=1)
    if layer.groups > 1:
        counts = counts * (layer.shape[layer.dims.index(Dim.F)] // layer.groups)
    chunks = _chunks(layer, slicing, context)
    return SharedStatistics(
        layer=layer.name,
        group=groups.of(axes),
        # where there are chunks, members of a group differ in space alone and hold the same samples
        counts=tuple(tuple(int(counts[rank]) * size for size in chunks or (1,)) for rank in groups.members(axes)),
        chunks=chunks,
    )


def _chunks(layer: Layer, slicing: Slicing, context: Context) -> tuple[int, ...]:
    """This rank's samples, chunk by chunk; none where all share statistics."""
    if layer.chunk is None:
        return ()
    start, stop = context.output_box(layer, slicing)[layer.dims.index(Dim.N)]
    return cut(stop - start, layer.chunk)


def _spread(layer: Layer) -> Callable[[Tensor | None], Tensor | None]:
    """A weight under the dims of what it scales: the last ones in a layer norm, the channels elsewhere."""
    count = len(layer.dims)
    behind = 0 if operator_name(layer) == "layer_norm" else count - 1 - layer.dims.index(Dim.F)
    return lambda weight: None if weight is None else weight.reshape(*weight.shape, *[1] * behind)


def _local_groups(layer: Layer, slicing: Slicing, context: Context) -> int:
    axes = tuple(axis for axis, dim in enumerate(slicing) if dim is Dim.F)
    return layer.groups // context.groups.mesh.group_size(axes)


def _counter(arguments: Mapping[str, Any], context: Context) -> str | None:
    """The buffer that counts a norm's batches."""
    tracked = arguments.get("running_mean")
    name = tracked["buffer"].replace("running_mean", "num_batches_tracked") if tracked else None
    return name if name in context.tensors else None
