"""Every layer kind under every slicing that the one legal list holds, against one device in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.layer import Kind
from slicewise.partition.legal import legal_slicings
from tests.distributed.comparing import compare
from tests.distributed.world import World

TOLERANCE = 1e-10
BATCH = 5  # divides over no mesh here: every rank gets the whole batch, and parts are uneven


class Add(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sigmoid(x)


class Concat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, torch.tanh(x)], 1)


class FlattenLinear(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(8 * 9 * 7, 6))


Case = tuple[Callable[[], nn.Module], tuple[int, ...]]

# name -> the layer under test, and the shape (channels, space...) that reaches it
CASES: dict[str, Case] = {
    "conv1d": (lambda: nn.Conv1d(8, 6, 5, padding=2), (8, 17)),
    "conv2d": (lambda: nn.Conv2d(8, 6, 3, padding=1), (8, 9, 7)),
    "conv2d strided": (lambda: nn.Conv2d(8, 6, 5, stride=2, padding=2), (8, 19, 17)),
    "conv2d dilated": (lambda: nn.Conv2d(8, 6, 3, padding=2, dilation=2), (8, 11, 9)),
    "conv2d no bias": (lambda: nn.Conv2d(8, 6, (1, 3), bias=False), (8, 6, 9)),
    "conv2d grouped": (lambda: nn.Conv2d(8, 12, 3, padding=1, groups=4), (8, 8, 7)),
    "conv2d depthwise": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (8, 9, 8)),
    "conv3d": (lambda: nn.Conv3d(4, 6, 3, padding=1), (4, 6, 5, 7)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(8, 6, 2, stride=2), (8, 5, 4)),
    "transposed 2d wide": (
        lambda: nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1, output_padding=1),
        (8, 5, 6),
    ),
    "transposed 3d": (lambda: nn.ConvTranspose3d(4, 6, 2, stride=2), (4, 4, 5, 3)),
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 6)), (8, 1)),
    "flatten": (FlattenLinear, (8, 9, 7)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (8, 9, 13)),
    "max pool ceil": (lambda: nn.MaxPool2d(3, 2, ceil_mode=True), (8, 10, 13)),
    "max pool 3d": (lambda: nn.MaxPool3d(2), (4, 8, 6, 9)),
    "avg pool": (lambda: nn.AvgPool2d(2), (8, 8, 11)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d((4, 3)), (8, 8, 9)),
    "batch norm": (lambda: nn.BatchNorm2d(8), (8, 6, 7)),
    "instance norm": (lambda: nn.InstanceNorm3d(4, affine=True), (4, 6, 5, 4)),
    "relu": (lambda: nn.ReLU(inplace=True), (8, 6, 7)),
    "add": (Add, (8, 6, 7)),
    "concat": (Concat, (8, 6, 7)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_legal_slicing_computes_what_one_device_computes(name: str, world: World) -> None:
    walked, wrong = world.run(_walk, name, world.ranks)
    assert walked > 1
    assert wrong == []


def _walk(name: str, ranks: int) -> tuple[int, list[str]]:
    """All slicings of a case's layers. A pointwise convolution before them makes their input gradients count."""
    build, (channels, *space) = CASES[name]
    torch.manual_seed(0)
    before = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(space) - 1](channels, channels, 1)
    model = nn.Sequential(before, build())
    graph = capture(model, torch.zeros(2, channels, *space)).with_batch(BATCH)
    mesh = Mesh.of({"local": ranks})
    whole = {layer.name: (None,) * len(mesh.axes) for layer in graph}
    walked, wrong = 0, []
    for layer in graph:
        if layer.kind in (Kind.INPUT, Kind.OUTPUT) or layer.name == "0":
            continue
        for slicing in legal_slicings(layer, mesh):
            difference = compare(model, graph, {**whole, layer.name: slicing}, mesh)
            walked += 1
            if not difference.below(TOLERANCE):
                wrong.append(f"{layer.name} {slicing}: {difference}")
    return walked, wrong


def test_the_cases_cover_every_kind_that_computes() -> None:
    covered: set[Kind] = set()
    for build, (channels, *space) in CASES.values():
        covered |= {layer.kind for layer in capture(build(), torch.zeros(2, channels, *space))}
    assert covered == set(Kind) - {Kind.OPAQUE}
