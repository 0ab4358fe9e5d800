"""Networks of published runs that the zoo lacks; `python -m benchmarks.runs.networks` captures them again."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph, shipped_names

if TYPE_CHECKING:
    from torch import nn

DATA = Path(__file__).parent / "data"
VGG16_OF_PARADL = Path(__file__).parent.parent / "paradl" / "data" / "vgg16.json"


@cache
def network(name: str) -> LayerGraph:
    """Of the zoo, or captured here."""
    if name == "vgg16_paradl":
        return LayerGraph.load(VGG16_OF_PARADL)
    return load_graph(name) if name in shipped_names() else LayerGraph.load(DATA / f"{name}.json")


def _resnext101() -> "nn.Module":
    """32 groups of 4 channels in the first stage."""
    from torch import nn

    from benchmarks.runs.blocks import Bottleneck

    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for level, count in enumerate((3, 4, 23, 3)):
        for number in range(count):
            stride = 2 if level and not number else 1
            layers.append(Bottleneck(channels, 128 << level, 256 << level, stride, groups=32))
            channels = 256 << level
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def _efficientnet_b0() -> "nn.Module":
    from torch import nn

    from benchmarks.runs.blocks import InvertedBottleneck

    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
    channels = 32
    for widening, width, count, stride, kernel in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for number in range(count):
            layers.append(InvertedBottleneck(channels, width, kernel, 1 if number else stride, widening))
            channels = width
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def _unet(space: int, widths: Sequence[int], inputs: int, classes: int) -> "nn.Module":
    from benchmarks.runs.blocks import UNet

    return UNet(space, widths, inputs, classes)


def _ssd300() -> "nn.Module":
    from benchmarks.runs.blocks import SSD300

    return SSD300()


CAPTURED: Mapping[str, tuple[Callable[[], "nn.Module"], tuple[int, ...]]] = {
    "resnext101": (_resnext101, (3, 224, 224)),
    "efficientnet_b0": (_efficientnet_b0, (3, 224, 224)),
    "nnunet_2d": (lambda: _unet(2, (32, 64, 128, 256, 512, 512), 5, 4), (5, 192, 160)),
    "nnunet_3d": (lambda: _unet(3, (32, 64, 128, 256, 320, 320), 5, 4), (5, 128, 128, 128)),
    "unet3d_kits": (lambda: _unet(3, (32, 64, 128, 256, 320), 1, 3), (1, 128, 128, 128)),
    "ssd300": (_ssd300, (3, 300, 300)),
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    import torch

    from slicewise.graph.capture import capture

    for name, (build, shape) in CAPTURED.items():
        with torch.device("meta"):
            capture(build(), torch.zeros(2, *shape), name=name).save(DATA / f"{name}.json")
        print(name, flush=True)


if __name__ == "__main__":
    main()
