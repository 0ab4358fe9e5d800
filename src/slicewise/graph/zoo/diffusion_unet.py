"""The U-Net of denoising diffusion (Ho 2020), with attention where images are small.

The noise level is a fourth channel, the same at every position: each block adds an embedding of it to its channels.
"""

import torch
import torch.nn.functional as F
from torch import nn


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, embedded: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, padding=1)
        self.level = nn.Linear(embedded, outputs)
        self.skip = nn.Conv2d(inputs, outputs, kernel_size=1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.level(F.silu(level))[:, :, None, None]
        result: torch.Tensor = self.skip(x) + self.conv2(F.silu(self.norm2(y)))
        return result


class _Attention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.query, self.key, self.value = (nn.Linear(channels, channels) for _ in range(3))
        self.out = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (
            project(tokens).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        result: torch.Tensor = x + self.out(mixed).transpose(1, 2).reshape(x.shape)
        return result


class _Stage(nn.Module):
    """Residual blocks, each with attention behind it where there are heads."""

    def __init__(self, inputs: list[int], outputs: int, embedded: int, heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Residual(channels, outputs, embedded) for channels in inputs)
        self.attention = nn.ModuleList(_Attention(outputs, heads) for _ in inputs if heads)

    def forward(self, x: torch.Tensor, level: torch.Tensor, skips: list[torch.Tensor]) -> list[torch.Tensor]:
        """All outputs; each of `skips` is read beside a block's input."""
        seen = [x]
        for number, block in enumerate(self.blocks):
            given = torch.cat([seen[-1], skips[number]], dim=1) if skips else seen[-1]
            y = block(given, level)
            seen.append(self.attention[number](y) if len(self.attention) else y)
        return seen[1:]


class DiffusionUNet(nn.Module):
    def __init__(
        self, widths: tuple[int, ...] = (128, 256, 256, 256), heads: tuple[int, ...] = (0, 0, 4, 4), blocks: int = 2
    ) -> None:
        super().__init__()
        embedded = 4 * widths[0]
        self.level = nn.Sequential(nn.Linear(1, embedded), nn.SiLU(), nn.Linear(embedded, embedded))
        self.first = nn.Conv2d(4, widths[0], kernel_size=3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.smaller, self.larger = nn.ModuleList(), nn.ModuleList()
        before = widths[0]
        for width, own in zip(widths, heads, strict=True):
            self.down.append(_Stage([before] + [width] * (blocks - 1), width, embedded, own))
            before = width
        for width in widths[:-1]:
            self.smaller.append(nn.Conv2d(width, width, kernel_size=3, stride=2, padding=1))
        self.middle = _Stage([before, before], before, embedded, heads[-1])
        for width, own in reversed(list(zip(widths, heads, strict=True))):
            self.up.append(_Stage([before + width] + [2 * width] * (blocks - 1), width, embedded, own))
            before = width
        for width in reversed(widths[1:]):
            self.larger.append(nn.Conv2d(width, width, kernel_size=3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, before), nn.Conv2d(before, 3, kernel_size=3, padding=1)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        level = self.level(x_nchw[:, 3:].mean((2, 3)))
        x = self.first(x_nchw)
        seen = []
        for number, stage in enumerate(self.down):
            seen.append(stage(x, level, []))
            x = self.smaller[number](seen[-1][-1]) if number < len(self.smaller) else seen[-1][-1]
        x = self.middle(x, level, [])[-1]
        for number, stage in enumerate(self.up):
            x = stage(x, level, seen.pop()[::-1])[-1]
            if number < len(self.larger):
                x = self.larger[number](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        result: torch.Tensor = self.last(F.silu(self.norm(x)))
        return result
