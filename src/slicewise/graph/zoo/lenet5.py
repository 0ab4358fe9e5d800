"""LeNet-5 (LeCun 1998) with plain average pooling and a linear output: 61,706 parameters on 1 x 32 x 32."""

import torch
from torch import nn


class LeNet5(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2, stride=2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.Tanh(),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(16 * 5 * 5, 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, classes),
        )

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.classifier(torch.flatten(self.features(x_nchw), 1))
        return y
