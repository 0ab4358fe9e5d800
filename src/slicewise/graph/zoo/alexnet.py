"""AlexNet in its one-tower form (Krizhevsky 2014), 61.1 M parameters.

The layer-wise parallelism paper (Jia 2018) reports bytes that fit 74.7 M: features of 7 x 7, not 6 x 6, as pooling with
padding 1 gives them.
"""

import torch
from torch import nn


class AlexNet(nn.Module):
    """`width` is the first convolution's filters, `hidden` the linear layers' units; the others keep their ratio."""

    def __init__(
        self,
        classes: int = 1000,
        dropout: float = 0.5,
        width: int = 64,
        hidden: int = 4096,
        pool_padding: int = 0,
    ) -> None:
        super().__init__()
        side = 6 + pool_padding
        self.features = nn.Sequential(
            nn.Conv2d(3, width, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=pool_padding),
            nn.Conv2d(width, 3 * width, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=pool_padding),
            nn.Conv2d(3 * width, 6 * width, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(6 * width, 4 * width, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * width, 4 * width, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=pool_padding),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((side, side))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(4 * width * side * side, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, classes),
        )

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x_nchw)), 1))
        return y
