"""The five blocks of Inception-v3. Each branch is a chain of convolutions; outputs are joined along channels."""

import torch
from torch import Tensor, nn

Size = int | tuple[int, int]
ROW, COLUMN = (1, 7), (7, 1)  # a 7 x 7 convolution in two steps


class Conv(nn.Module):
    """Convolution, batch norm, ReLU; padded so that stride 1 keeps the size, or not padded at all."""

    def __init__(self, inputs: int, outputs: int, kernel: Size, *, stride: int = 1, padded: bool = True) -> None:
        super().__init__()
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2) if padded else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=kernel, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.bn(self.conv(x)))
        return y


def _halved(inputs: int, outputs: int) -> Conv:
    return Conv(inputs, outputs, 3, stride=2, padded=False)


class Grid(nn.Module):
    """1 x 1, 5 x 5, two 3 x 3, and an average: 224 + `pooled` channels."""

    def __init__(self, inputs: int, *, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inputs, 64, 1)
        self.branch5x5_1 = Conv(inputs, 48, 1)
        self.branch5x5_2 = Conv(48, 64, 5)
        self.branch3x3dbl_1 = Conv(inputs, 64, 1)
        self.branch3x3dbl_2 = Conv(64, 96, 3)
        self.branch3x3dbl_3 = Conv(96, 96, 3)
        self.average = nn.AvgPool2d(kernel_size=3, stride=1, padding=1)
        self.branch_pool = Conv(inputs, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        fives = self.branch5x5_2(self.branch5x5_1(x))
        threes = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), fives, threes, self.branch_pool(self.average(x))], dim=1)


class GridHalved(nn.Module):
    """Half the image, 480 channels more."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = _halved(inputs, 384)
        self.branch3x3dbl_1 = Conv(inputs, 64, 1)
        self.branch3x3dbl_2 = Conv(64, 96, 3)
        self.branch3x3dbl_3 = _halved(96, 96)
        self.maximum = nn.MaxPool2d(kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        threes = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), threes, self.maximum(x)], dim=1)


class Factored(nn.Module):
    """7 x 7 convolutions as rows and columns, `inner` wide: 768 channels."""

    def __init__(self, inputs: int, *, inner: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inputs, 192, 1)
        self.branch7x7_1 = Conv(inputs, inner, 1)
        self.branch7x7_2 = Conv(inner, inner, ROW)
        self.branch7x7_3 = Conv(inner, 192, COLUMN)
        self.branch7x7dbl_1 = Conv(inputs, inner, 1)
        self.branch7x7dbl_2 = Conv(inner, inner, COLUMN)
        self.branch7x7dbl_3 = Conv(inner, inner, ROW)
        self.branch7x7dbl_4 = Conv(inner, inner, COLUMN)
        self.branch7x7dbl_5 = Conv(inner, 192, ROW)
        self.average = nn.AvgPool2d(kernel_size=3, stride=1, padding=1)
        self.branch_pool = Conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        once = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        return torch.cat([self.branch1x1(x), once, twice, self.branch_pool(self.average(x))], dim=1)


class GridHalvedAgain(nn.Module):
    """Half the image, 512 channels more."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3_1 = Conv(inputs, 192, 1)
        self.branch3x3_2 = _halved(192, 320)
        self.branch7x7x3_1 = Conv(inputs, 192, 1)
        self.branch7x7x3_2 = Conv(192, 192, ROW)
        self.branch7x7x3_3 = Conv(192, 192, COLUMN)
        self.branch7x7x3_4 = _halved(192, 192)
        self.maximum = nn.MaxPool2d(kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        sevens = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        branches = [self.branch3x3_2(self.branch3x3_1(x)), self.branch7x7x3_4(sevens), self.maximum(x)]
        return torch.cat(branches, dim=1)


class Wide(nn.Module):
    """3 x 3 convolutions as a row and a column side by side: 2048 channels."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inputs, 320, 1)
        self.branch3x3_1 = Conv(inputs, 384, 1)
        self.branch3x3_2a = Conv(384, 384, (1, 3))
        self.branch3x3_2b = Conv(384, 384, (3, 1))
        self.branch3x3dbl_1 = Conv(inputs, 448, 1)
        self.branch3x3dbl_2 = Conv(448, 384, 3)
        self.branch3x3dbl_3a = Conv(384, 384, (1, 3))
        self.branch3x3dbl_3b = Conv(384, 384, (3, 1))
        self.average = nn.AvgPool2d(kernel_size=3, stride=1, padding=1)
        self.branch_pool = Conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        once = self.branch3x3_1(x)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        branches = [
            self.branch1x1(x),
            self.branch3x3_2a(once),
            self.branch3x3_2b(once),
            self.branch3x3dbl_3a(twice),
            self.branch3x3dbl_3b(twice),
            self.branch_pool(self.average(x)),
        ]
        return torch.cat(branches, dim=1)
