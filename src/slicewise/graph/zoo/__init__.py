"""The networks of the papers, written for this project."""

from slicewise.graph.zoo.alexnet import AlexNet
from slicewise.graph.zoo.unet3d import UNet3d

__all__ = ["ZOO", "AlexNet", "UNet3d", "ZooEntry"]

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class ZooEntry:
    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]  # without the batch


ZOO: dict[str, ZooEntry] = {
    "alexnet": ZooEntry(AlexNet, (3, 224, 224)),
    "unet3d": ZooEntry(UNet3d, (1, 96, 96, 96)),
}
