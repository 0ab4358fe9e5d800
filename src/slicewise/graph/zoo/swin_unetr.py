"""SwinUNETR (Hatamizadeh 2022): a 3-D Swin encoder, and a convolutional decoder that reads every stage.

Windows are of 6 x 6 x 6 instead of 7, so that they divide the volume at every stage.
"""

import torch
from torch import nn

from slicewise.graph.zoo.swin import Merging, stage
from slicewise.graph.zoo.unetr import ConvBlock, UpBlock


class SwinUNETR(nn.Module):
    """`volume` is the side of the cube that it reads."""

    def __init__(
        self,
        width: int = 48,
        blocks: tuple[int, ...] = (2, 2, 2, 2),
        heads: tuple[int, ...] = (3, 6, 12, 24),
        classes: int = 14,
        volume: int = 96,
        window: int = 6,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv3d(1, width, kernel_size=2, stride=2)
        self.stages, self.merging = nn.ModuleList(), nn.ModuleList()
        widths = [width * 2**number for number in range(len(blocks) + 1)]
        for number, (count, own) in enumerate(zip(blocks, heads, strict=True)):
            side = volume // 2 ** (number + 1)
            self.stages.append(stage(widths[number], own, count, (side,) * 3, min(window, side)))
            self.merging.append(Merging(widths[number], 3))
        self.whole = ConvBlock(1, width)
        self.skips = nn.ModuleList(ConvBlock(channels, channels) for channels in (width, *widths[1:-1]))
        self.bottom = ConvBlock(widths[-1], widths[-1])
        above = [width, *widths[:-1]]
        self.up = nn.ModuleList(UpBlock(wide, narrow) for wide, narrow in zip(widths, above, strict=True))
        self.out = nn.Conv3d(width, classes, kernel_size=1)

    def forward(self, x_ncdhw: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x_ncdhw).movedim(1, -1)
        seen = [self.whole(x_ncdhw), self.skips[0](tokens.movedim(-1, 1))]
        for number, (blocks, merging) in enumerate(zip(self.stages, self.merging, strict=True), start=1):
            tokens = merging(blocks(tokens))
            below = tokens.movedim(-1, 1)
            seen.append(self.skips[number](below) if number < len(self.stages) else self.bottom(below))
        y = seen.pop()
        for up, skip in zip(reversed(self.up), reversed(seen), strict=True):
            y = up(y, skip)
        result: torch.Tensor = self.out(y)
        return result
