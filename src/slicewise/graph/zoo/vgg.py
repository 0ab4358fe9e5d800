"""VGG (Simonyan 2014): stages of 3 x 3 convolutions, halved between, and three wide linear layers."""

from collections.abc import Sequence

import torch
from torch import nn

VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG(nn.Module):
    """`stages` are the filters of each convolution; `VGG(VGG16)` has 138.4 M parameters, 89 % of them linear."""

    def __init__(
        self, stages: Sequence[Sequence[int]] = VGG16, classes: int = 1000, dropout: float = 0.5, hidden: int = 4096
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage in stages:
            for filters in stage:
                layers += [nn.Conv2d(channels, filters, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
                channels = filters
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x_nchw)), 1))
        return y
