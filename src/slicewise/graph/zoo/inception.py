"""Inception-v3 (Szegedy 2015): blocks of parallel branches, joined along channels.

The auxiliary classifier is left out unless asked for: 23.8 M parameters without, 27.2 M with it.
"""

import torch
from torch import Tensor, nn

from slicewise.graph.zoo.inception_blocks import Conv, Factored, Grid, GridHalved, GridHalvedAgain, Wide


class _Auxiliary(nn.Module):
    """A second classifier on the middle of the network, for training only."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size=5, stride=3)
        self.conv0 = Conv(inputs, 128, 1)
        self.conv1 = Conv(128, 768, 5, padded=False)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(768, classes)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(torch.flatten(self.avgpool(self.conv1(self.conv0(self.pool(x)))), 1))
        return y


class InceptionV3(nn.Module):
    """With `auxiliary`, training returns (logits, auxiliary logits)."""

    def __init__(self, classes: int = 1000, dropout: float = 0.5, auxiliary: bool = False) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Conv(3, 32, 3, stride=2, padded=False)
        self.Conv2d_2a_3x3 = Conv(32, 32, 3, padded=False)
        self.Conv2d_2b_3x3 = Conv(32, 64, 3)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = Conv(64, 80, 1)
        self.Conv2d_4a_3x3 = Conv(80, 192, 3, padded=False)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b = Grid(192, pooled=32)
        self.Mixed_5c = Grid(256, pooled=64)
        self.Mixed_5d = Grid(288, pooled=64)
        self.Mixed_6a = GridHalved(288)
        self.Mixed_6b = Factored(768, inner=128)
        self.Mixed_6c = Factored(768, inner=160)
        self.Mixed_6d = Factored(768, inner=160)
        self.Mixed_6e = Factored(768, inner=192)
        self.AuxLogits = _Auxiliary(768, classes) if auxiliary else None
        self.Mixed_7a = GridHalvedAgain(768)
        self.Mixed_7b = Wide(1280)
        self.Mixed_7c = Wide(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x_nchw: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        y = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x_nchw))))
        y = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(y)))
        y = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(y)))
        middle = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(y)))))
        y = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(middle)))
        logits: Tensor = self.fc(torch.flatten(self.dropout(self.avgpool(y)), 1))
        return (logits, self.AuxLogits(middle)) if self.AuxLogits is not None and self.training else logits
