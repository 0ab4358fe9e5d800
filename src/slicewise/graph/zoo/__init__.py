"""The networks of the papers, written for this project; where torchvision has one, parameters have its names."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from slicewise.graph.zoo.alexnet import AlexNet
from slicewise.graph.zoo.cosmoflow import CosmoFlow
from slicewise.graph.zoo.densenet import DENSENET121, DenseNet
from slicewise.graph.zoo.diffusion_unet import DiffusionUNet
from slicewise.graph.zoo.inception import InceptionV3
from slicewise.graph.zoo.lenet5 import LeNet5
from slicewise.graph.zoo.resnet import RESNET50, RESNET101, RESNET152, ResNet
from slicewise.graph.zoo.swin import SWIN_T, Swin
from slicewise.graph.zoo.swin_unetr import SwinUNETR
from slicewise.graph.zoo.textcnn import TextCNN
from slicewise.graph.zoo.unet3d import UNet3d
from slicewise.graph.zoo.unetr import UNETR3d
from slicewise.graph.zoo.vgg import VGG, VGG16
from slicewise.graph.zoo.vit import VIT_B, VIT_L, ViT
from slicewise.graph.zoo.weather_swin import WeatherSwin

__all__ = [
    "VGG",
    "ZOO",
    "AlexNet",
    "CosmoFlow",
    "DenseNet",
    "DiffusionUNet",
    "InceptionV3",
    "LeNet5",
    "ResNet",
    "Swin",
    "SwinUNETR",
    "TextCNN",
    "UNETR3d",
    "UNet3d",
    "ViT",
    "WeatherSwin",
    "ZooEntry",
]


@dataclass(frozen=True, slots=True)
class ZooEntry:
    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]  # without the batch
    sized: Callable[[tuple[int, ...]], nn.Module] | None = None  # for another space, where the head depends on it

    def built(self, input_shape: tuple[int, ...] | None) -> nn.Module:
        """For samples of this shape, or of its own."""
        if input_shape is None or self.sized is None or len(input_shape) != len(self.input_shape):
            return self.build()
        return self.sized(input_shape[1:])


ZOO: dict[str, ZooEntry] = {
    "alexnet": ZooEntry(AlexNet, (3, 224, 224)),
    "alexnet_optcnn": ZooEntry(partial(AlexNet, pool_padding=1), (3, 224, 224)),
    "cosmoflow": ZooEntry(CosmoFlow, (4, 256, 256, 256), lambda volume: CosmoFlow(volume=volume)),
    "densenet121": ZooEntry(partial(DenseNet, DENSENET121), (3, 224, 224)),
    "diffusion_unet": ZooEntry(DiffusionUNet, (4, 64, 64)),
    "inception_v3": ZooEntry(InceptionV3, (3, 299, 299)),
    "lenet5": ZooEntry(LeNet5, (1, 32, 32), lambda image: LeNet5(image=image)),
    "resnet50": ZooEntry(partial(ResNet, RESNET50), (3, 224, 224)),
    "resnet101": ZooEntry(partial(ResNet, RESNET101), (3, 224, 224)),
    "resnet152": ZooEntry(partial(ResNet, RESNET152), (3, 224, 224)),
    "swin_t": ZooEntry(partial(Swin, SWIN_T), (3, 224, 224)),
    "swin_unetr": ZooEntry(SwinUNETR, (1, 96, 96, 96)),
    "textcnn": ZooEntry(TextCNN, (300, 64)),
    "unet3d": ZooEntry(UNet3d, (1, 96, 96, 96)),
    "unetr": ZooEntry(UNETR3d, (1, 96, 96, 96)),
    "vgg16": ZooEntry(partial(VGG, VGG16), (3, 224, 224)),
    "vit_b_16": ZooEntry(partial(ViT, VIT_B), (3, 224, 224)),
    "vit_l_16": ZooEntry(partial(ViT, VIT_L), (3, 224, 224)),
    "weather_swin": ZooEntry(WeatherSwin, (69, 721, 1440), lambda grid: WeatherSwin(image=(grid[0], grid[1]))),
}
