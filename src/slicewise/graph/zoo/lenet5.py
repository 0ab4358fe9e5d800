"""LeNet-5 (LeCun 1998) with plain average pooling and a linear output: 61,706 parameters on 1 x 32 x 32."""

from collections.abc import Sequence
from math import prod

import torch
from torch import nn

from slicewise.errors import RequestError


class LeNet5(nn.Module):
    """The head follows the image's size."""

    def __init__(self, classes: int = 10, image: Sequence[int] = (32, 32)) -> None:
        super().__init__()
        left = [((size - 4) // 2 - 4) // 2 for size in image]
        if min(left) < 1:
            raise RequestError(f"lenet5 needs images of at least 16 a side (got {'x'.join(map(str, image))})")
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2, stride=2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(16 * prod(left), 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, classes),
        )

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.classifier(torch.flatten(self.features(x_nchw), 1))
        return y
