"""ResNet (He 2015) of bottleneck blocks, with the stride in the 3 x 3 convolution ("v1.5")."""

from collections.abc import Sequence

import torch
from torch import nn

EXPANSION = 4  # a block's output is this many times wider than its 3 x 3 convolution

RESNET50 = (3, 4, 6, 3)
RESNET101 = (3, 4, 23, 3)
RESNET152 = (3, 8, 36, 3)


class _Bottleneck(nn.Module):
    """x + (1 x 1, 3 x 3, 1 x 1)(x); a 1 x 1 convolution brings x to the output's shape where the two differ."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.conv1 = nn.Conv2d(inputs, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(outputs))
            if stride > 1 or inputs != outputs
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        result: torch.Tensor = self.relu(y)
        return result


class ResNet(nn.Module):
    """`blocks` per stage; each stage after the first halves the image and doubles the width."""

    def __init__(self, blocks: Sequence[int] = RESNET50, classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = width
        stages = []
        for level, count in enumerate(blocks):
            inner = width * 2**level
            first = _Bottleneck(channels, inner, stride=1 if level == 0 else 2)
            channels = EXPANSION * inner
            stages.append(nn.Sequential(first, *(_Bottleneck(channels, inner, stride=1) for _ in range(count - 1))))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y = self.maxpool(self.relu(self.bn1(self.conv1(x_nchw))))
        y = self.layer4(self.layer3(self.layer2(self.layer1(y))))
        result: torch.Tensor = self.fc(torch.flatten(self.avgpool(y), 1))
        return result
