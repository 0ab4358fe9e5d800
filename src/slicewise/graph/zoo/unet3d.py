"""A small 3-D U-Net (Cicek 2016) with instance norm, for volumetric segmentation."""

from itertools import pairwise

import torch
from torch import nn


class _DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv3d(inputs, outputs, kernel_size=3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
            nn.Conv3d(outputs, outputs, kernel_size=3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        )


class UNet3d(nn.Module):
    """`depth` times: two convolutions, halve; then back up, each level joined with its skip connection."""

    def __init__(self, inputs: int = 1, classes: int = 3, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _DoubleConv(before, after) for before, after in zip([inputs, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool3d(2)
        self.up = nn.ModuleList(
            nn.ConvTranspose3d(wide, narrow, kernel_size=2, stride=2) for narrow, wide in pairwise(widths)
        )
        self.merge = nn.ModuleList(_DoubleConv(2 * narrow, narrow) for narrow in widths[:-1])
        self.head = nn.Conv3d(width, classes, kernel_size=1)

    def forward(self, x_ncdhw: torch.Tensor) -> torch.Tensor:
        skips = []
        y = self.down[0](x_ncdhw)
        for block in self.down[1:]:
            skips.append(y)
            y = block(self.pool(y))
        for up, merge, skip in reversed(list(zip(self.up, self.merge, skips, strict=True))):
            y = merge(torch.cat([skip, up(y)], dim=1))
        result: torch.Tensor = self.head(y)
        return result
