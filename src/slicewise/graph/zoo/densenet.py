"""DenseNet (Huang 2016): every layer of a block reads what all layers before it wrote."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

DENSENET121 = (6, 12, 24, 16)
BOTTLENECK = 4  # the 1 x 1 convolution makes this many times the growth


class _DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        inner = BOTTLENECK * growth
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, inner, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(inner, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Joined layer by layer: the same values as joining all outputs before each layer, but each tensor has two
        # readers instead of as many as layers follow.
        new = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return torch.cat([x, new], dim=1)


class DenseNet(nn.Module):
    """`blocks` are layers per block, each adding `growth` channels; between blocks, channels and image are halved."""

    def __init__(self, blocks: Sequence[int] = DENSENET121, classes: int = 1000, growth: int = 32) -> None:
        super().__init__()
        channels = 2 * growth
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, channels, kernel_size=7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(channels),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        for number, layers in enumerate(blocks, start=1):
            block: OrderedDict[str, nn.Module] = OrderedDict()
            for position in range(1, layers + 1):
                block[f"denselayer{position}"] = _DenseLayer(channels, growth)
                channels += growth
            parts[f"denseblock{number}"] = nn.Sequential(block)
            if number < len(blocks):
                parts[f"transition{number}"] = _transition(channels)
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.relu = nn.ReLU(inplace=True)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y = self.avgpool(self.relu(self.features(x_nchw)))
        result: torch.Tensor = self.classifier(torch.flatten(y, 1))
        return result


def _transition(channels: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(channels),
            relu=nn.ReLU(inplace=True),
            conv=nn.Conv2d(channels, channels // 2, kernel_size=1, bias=False),
            pool=nn.AvgPool2d(kernel_size=2, stride=2),
        )
    )
