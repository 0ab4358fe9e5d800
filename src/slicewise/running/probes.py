"""Layers of every kind, over a few sizes, timed on the ranks that will run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate

from slicewise.cluster.lines import UPDATE
from slicewise.cluster.mesh import Mesh
from slicewise.running.contenders import OPTIMIZERS
from slicewise.running.line_fit import Point
from slicewise.running.stopwatch import agreed_s, empty_backward_s, in_a_row, is_short, own_pass_s, timed_s, without
from slicewise.runtime.groups import Groups
from slicewise.runtime.norm import SharedStatistics, shared_norm

Shape = tuple[int, ...]
_IN_A_ROW = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A layer: tensors of these shapes through `run`."""

    kind: str
    run: Callable[[list[Tensor], list[Tensor]], Tensor]  # inputs, weights
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...] = ()
    flops: float = 0.0  # of a product; of others the items that windows read
    splits: bool = False  # a product: each gradient is a pass of its own


# batch, channels, filters, side, kernel, stride
_POINTWISE = (
    (8, 64, 256, 28),
    (8, 256, 64, 28),
    (4, 512, 1024, 7),
    (4, 1024, 256, 14),
    (8, 64, 64, 56),
    (2, 32, 64, 14),
    (4, 512, 2048, 14),
)
_WINDOW = (
    (8, 64, 64, 28, 3), (4, 128, 128, 14, 3), (4, 256, 256, 7, 3), (4, 32, 32, 56, 3), (2, 3, 32, 64, 3),
    (4, 32, 64, 28, 5), (1, 16, 16, 14, 3), (4, 384, 384, 13, 3), (2, 128, 128, 56, 3), (2, 96, 256, 27, 5),
    (4, 512, 512, 7, 3),
)  # fmt: skip
_STRIDED = (
    (2, 3, 64, 112, 7, 2), (4, 128, 128, 28, 3, 2), (4, 256, 512, 28, 1, 2), (4, 3, 64, 112, 11, 4),
    (1, 16, 16, 16, 3, 2), (2, 3, 64, 224, 11, 4), (2, 3, 64, 224, 7, 2), (4, 256, 256, 28, 3, 2),
    (4, 512, 512, 14, 3, 2),
)  # fmt: skip
_VOLUME = (
    (2, 16, 16, 24, 3),
    (2, 32, 32, 12, 3),
    (2, 64, 64, 6, 3),
    (2, 4, 16, 32, 3),
    (1, 16, 16, 48, 3),
    (2, 128, 128, 6, 3),
    (1, 32, 64, 32, 3),
    (1, 4, 16, 80, 3),
)
_PLAIN_VOLUME = ((16, 16, 24, 3), (32, 32, 12, 3), (64, 64, 6, 3), (32, 8, 12, 1), (16, 4, 32, 1))  # of one sample
_DEPTHWISE = ((4, 64, 28), (4, 192, 14), (2, 32, 56), (1, 32, 7))
_GROUPED = ((4, 128, 28, 32), (4, 256, 14, 32), (1, 64, 7, 8))
_LINEAR = (
    (32, 1024, 1024), (8, 4096, 1024), (128, 512, 512), (16, 2048, 1000), (2, 64, 64), (8, 4096, 4096),
    (394, 3072, 768), (784, 384, 384),
)  # fmt: skip
_PRODUCT = ((24, 64, 64, 64), (12, 196, 64, 196), (4, 16, 16, 16))
_ATTENTION = ((2, 12, 197, 64), (64, 3, 49, 32), (1, 8, 32, 32))  # samples, heads, tokens, size of a head
_COLOURS = 3
_IMAGES = ((8, 64, 28, 28), (8, 256, 14, 14), (4, 64, 56, 56), (2, 32, 7, 7), (4, 64, 112, 112))
_TOKENS = ((394, 768), (3136, 96), (64, 128))
_POOLS = ((4, 64, 56, 56), (4, 128, 28, 28), (2, 16, 14, 14))
_MAXPOOLS = (*_POOLS, (4, 64, 112, 112))


def probes(scale: int = 1) -> Iterator[Probe]:
    """All kinds; batches `scale` times as large."""
    for batch, channels, filters, side in _POINTWISE:
        yield _convolution("pointwise", (scale * batch, channels, side, side), filters, 1)
    for batch, channels, filters, side, kernel in _WINDOW:
        yield _convolution("window", (scale * batch, channels, side, side), filters, kernel)
    for batch, channels, filters, side, kernel, stride in _STRIDED:
        yield _convolution("strided", (scale * batch, channels, side, side), filters, kernel, stride=stride)
    for batch, channels, filters, side, kernel in _VOLUME:
        yield _convolution("volume", (scale * batch, channels, side, side, side), filters, kernel)
    for channels, filters, side, kernel in _PLAIN_VOLUME:
        yield _convolution("plain_volume", (1, scale * channels, side, side, side), scale * filters, kernel)
    for batch, channels, side in _DEPTHWISE:
        yield _convolution("depthwise", (scale * batch, channels, side, side), channels, 3, groups=channels)
    for batch, channels, side, groups in _GROUPED:
        yield _convolution("grouped", (scale * batch, channels, side, side), channels, 3, groups=groups)
    for rows, inputs, outputs in _LINEAR:
        yield Probe(
            kind="linear",
            run=lambda x, w: F.linear(x[0], w[0], w[1]),
            inputs=((scale * rows, inputs),),
            weights=((outputs, inputs), (outputs,)),
            flops=2.0 * scale * rows * inputs * outputs,
            splits=True,
        )
    for groups, rows, summed, columns in _PRODUCT:
        yield Probe(
            kind="product",
            run=lambda x, w: x[0] @ x[1],
            inputs=((scale * groups, rows, summed), (scale * groups, summed, columns)),
            flops=2.0 * scale * groups * rows * summed * columns,
            splits=True,
        )
    for batch, heads, tokens, size in _ATTENTION:
        yield Probe(
            kind="attention",
            run=lambda x, w: F.scaled_dot_product_attention(x[0], x[1], x[2]),
            inputs=((scale * batch, heads, tokens, size),) * 3,
            flops=4.0 * scale * batch * heads * tokens**2 * size,
            splits=True,
        )
    yield from _moved(scale)


def _moved(scale: int) -> Iterator[Probe]:
    """What is no matrix product."""
    for batch, *rest in _IMAGES:
        shape = (scale * batch, *rest)
        channels = ((shape[1],), (shape[1],))
        yield Probe(kind="norm", run=_batch_norm, inputs=(shape,), weights=channels, flops=prod(shape))
        yield Probe(kind="shared_norm", run=_shared_norm, inputs=(shape,), weights=channels, flops=prod(shape))
        for kind, run, count in _POINTS:
            yield Probe(
                kind=kind, run=run, inputs=(shape,) * count, flops=prod(shape) * (count if kind == "copy" else 1)
            )
    for count, size in _TOKENS:
        shape = (scale * count, size)
        yield Probe(kind="layer_norm", run=_layer_norm, inputs=(shape,), weights=((size,), (size,)), flops=prod(shape))
    for batch, *rest in _MAXPOOLS:
        shape = (scale * batch, *rest)
        items = prod(shape)
        yield Probe(kind="maxpool", run=lambda x, w: F.max_pool2d(x[0], 3, 2, 1), inputs=(shape,), flops=9 * items / 4)
        yield Probe(kind="maxpool", run=lambda x, w: F.max_pool2d(x[0], 2, 2), inputs=(shape,), flops=items)
    for batch, *rest in _POOLS:
        shape = (scale * batch, *rest)
        items = prod(shape)
        yield Probe(kind="pool", run=lambda x, w: F.avg_pool2d(x[0], 3, 1, 1), inputs=(shape,), flops=9 * items)
        yield Probe(kind="pool", run=lambda x, w: F.avg_pool2d(x[0], 2, 2), inputs=(shape,), flops=items)
        whole = shape[0] * shape[1]  # a window for each sample and channel, whose size no layer tells
        yield Probe(kind="global_pool", run=lambda x, w: F.adaptive_avg_pool2d(x[0], 1), inputs=(shape,), flops=whole)


_POINTS: tuple[tuple[str, Callable[[list[Tensor], list[Tensor]], Tensor], int], ...] = (
    ("elementwise", lambda x, w: torch.relu(x[0]), 1),
    ("smooth", lambda x, w: F.gelu(x[0]), 1),
    ("sum", lambda x, w: x[0] + x[1], 2),
    ("copy", lambda x, w: torch.cat((x[0], x[1]), 1), 2),
)


def _convolution(kind: str, shape: Shape, filters: int, kernel: int, *, stride: int = 1, groups: int = 1) -> Probe:
    space = len(shape) - 2
    operator = (F.conv1d, F.conv2d, F.conv3d)[space - 1]
    weight = (filters, shape[1] // groups, *[kernel] * space)
    positions = shape[0] * prod((side + 2 * (kernel // 2) - kernel) // stride + 1 for side in shape[2:])
    return Probe(
        kind=kind,
        run=lambda x, w: operator(x[0], w[0], stride=stride, padding=kernel // 2, groups=groups),
        inputs=(shape,),
        weights=(weight,),
        flops=2.0 * prod(weight) * positions,
        splits=True,
    )


def _batch_norm(x: list[Tensor], w: list[Tensor]) -> Tensor:
    return F.batch_norm(x[0], None, None, w[0], w[1], training=True)


def _layer_norm(x: list[Tensor], w: list[Tensor]) -> Tensor:
    return F.layer_norm(x[0], x[0].shape[1:], w[0], w[1])


def _shared_norm(x: list[Tensor], w: list[Tensor]) -> Tensor:
    count = x[0].numel() // x[0].shape[1]
    statistics = SharedStatistics(layer="norm", group=None, counts=((count,),) * dist.get_world_size())
    return shared_norm(x[0], w[0], w[1], 1e-5, statistics)[0]


def all_points(
    device: torch.device, rounds: int, scales: Sequence[int], between: Callable[[], None] = lambda: None
) -> list[Point]:
    """Every layer in every round, so that a machine which drifts treats all of them alike. The first round warms up.

    Short ones run in a row, as small layers follow each other in a step. `between` is called after each round.
    """
    listed = [probe for scale in scales for probe in probes(scale)]
    short = [is_short(agreed_s([(first := _passes(probe)).forward_s + first.backward_s])) for probe in listed]
    taken = []
    for _ in range(rounds):
        taken.append([_passes(probe, row) for probe, row in zip(listed, short, strict=True)])
        between()
    empty_s = empty_backward_s()
    found = [
        point
        for probe, times in zip(listed, zip(*taken, strict=True), strict=True)
        for point in _points(probe, times, empty_s)
    ]
    return [*found, *update_points(device, rounds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    """One round of a probe, by this rank's clock."""

    forward_s: float
    backward_s: float
    factor_s: float  # of a product: the part of backward that is the gradient of its factor
    output: int  # items


def _passes(probe: Probe, row: bool = False) -> _Passes:
    inputs = [torch.randn(shape, requires_grad=True) for shape in probe.inputs]
    weights = [torch.randn(shape, requires_grad=True) for shape in probe.weights]
    several = inputs[0] if len(inputs) > 1 and not probe.splits else None
    made = 0

    def run(x: list[Tensor]) -> Tensor:
        nonlocal made
        y = probe.run(x, weights)
        made = y.numel()
        return y

    def passes_s(given: list[Tensor], summed: Tensor | None) -> tuple[float, float]:
        once = partial(own_pass_s, run, [*inputs, *weights], prepare=lambda: given, summed=summed)
        forward_s, backward_s = zip(*(in_a_row(once, _IN_A_ROW) if row else [once()]), strict=True)
        return median(forward_s), median(backward_s)

    forward_s, backward_s = passes_s(inputs, several)
    plain = [inputs[0].detach(), *inputs[1:]]
    factor_s = passes_s(plain, None)[1] if probe.splits else 0.0
    return _Passes(forward_s=forward_s, backward_s=backward_s, factor_s=factor_s, output=made)


def _points(probe: Probe, rounds: Sequence[_Passes], empty_s: float) -> Iterator[Point]:
    """Forward and backward; of a product the gradient of its factor, and that of its input, which is the rest."""
    forward_s, backward_s, factor_s = (
        agreed_s([getattr(taken, name) for taken in rounds]) for name in ("forward_s", "backward_s", "factor_s")
    )
    seconds = {"forward": forward_s, "backward_input": without(backward_s, empty_s)}
    if probe.splits:
        seconds |= {
            "backward_weight": without(factor_s, empty_s),
            "backward_input": without(backward_s, factor_s),
        }
    if probe.weights and probe.splits and probe.inputs[0][1] <= _COLOURS:
        del seconds["backward_input"]  # no network wants the gradient of its samples
    items = float(sum(map(prod, probe.inputs)) + rounds[0].output)
    held = float(sum(map(prod, probe.weights)))
    for name, took_s in seconds.items():
        yield Point(kind=probe.kind, direction=name, seconds=took_s, flops=probe.flops, items=items, weights=held)


def update_points(device: torch.device, repeats: int) -> Iterator[Point]:
    """The optimizer's step over weights as a sliced network holds them."""
    mesh = Groups(Mesh.of({"local": dist.get_world_size()}), dist.get_rank()).device_mesh(device.type)
    for name, make in OPTIMIZERS.items():
        for count, items in ((32, 64), (4, 2**18), (2, 2**20)):
            weights = [nn.Parameter(held(torch.randn(items), mesh)) for _ in range(count)]
            for weight in weights:
                weight.grad = held(torch.randn(items), mesh)
            optimizer = make([{"params": weights}])
            took_s = timed_s(optimizer.step, repeats)
            yield Point(kind=UPDATE, direction=name, seconds=took_s, weights=count * items, calls=count)


def held(local: Tensor, mesh: DeviceMesh) -> DTensor:
    """As a sliced network holds a weight."""
    return DTensor.from_local(local, mesh, [Replicate()] * mesh.ndim, run_check=False)
