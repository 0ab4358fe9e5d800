"""Swin Transformer (Liu 2021), in two or three dims: attention inside of windows, which every second block shifts.

Parameters have torchvision's names. Windows divide the space at every stage.
"""

from itertools import product
from math import prod

import torch
import torch.nn.functional as F
from torch import nn

SWIN_T = (96, (2, 2, 6, 2), (3, 6, 12, 24))  # width, blocks and heads of the stages

_HIDDEN = -100.0  # added to the scores of positions that only the shift has brought together


def in_windows(x_nsf: torch.Tensor, window: int) -> torch.Tensor:
    """`N, space..., F -> N, windows, positions, F`."""
    samples, *space, channels = x_nsf.shape
    count = len(space)
    pieces = x_nsf.view(samples, *(part for size in space for part in (size // window, window)), channels)
    order = (0, *range(1, 2 * count, 2), *range(2, 2 * count + 1, 2), 2 * count + 1)
    return pieces.permute(order).reshape(samples, -1, window**count, channels)


def out_of_windows(x_nwpf: torch.Tensor, space: list[int], window: int) -> torch.Tensor:
    """The way back."""
    count, channels = len(space), x_nwpf.shape[-1]
    pieces = x_nwpf.view(len(x_nwpf), *(size // window for size in space), *[window] * count, channels)
    order = (0, *(place for dim in range(count) for place in (1 + dim, 1 + count + dim)), 2 * count + 1)
    return pieces.permute(order).reshape(len(x_nwpf), *space, channels)


class WindowAttention(nn.Module):
    relative_position_index: torch.Tensor
    region: torch.Tensor

    def __init__(
        self,
        width: int,
        heads: int,
        space: tuple[int, ...],
        window: int,
        shift: int,
        around: tuple[int, ...] = (),
    ) -> None:
        """`around`: dims of space that have no edge."""
        super().__init__()
        self.heads, self.space, self.window, self.shift = heads, list(space), window, shift
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.relative_position_bias_table = nn.Parameter(torch.empty((2 * window - 1) ** len(space), heads))
        self.register_buffer("relative_position_index", _relative(window, len(space)))
        self.register_buffer("region", _regions(space, window, shift, around), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x_nsf: torch.Tensor) -> torch.Tensor:
        dims = tuple(range(1, 1 + len(self.space)))
        moved = torch.roll(x_nsf, [-self.shift] * len(dims), dims) if self.shift else x_nsf
        qkv = self.qkv(in_windows(moved, self.window)).unflatten(3, (3, self.heads, -1))
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5).unbind(0)
        positions = self.window ** len(self.space)
        bias = self.relative_position_bias_table[self.relative_position_index]
        bias = bias.view(positions, positions, self.heads).permute(2, 0, 1)
        if self.shift:
            apart = self.region[:, None, :] != self.region[:, :, None]
            bias = bias + (apart.to(bias.dtype) * _HIDDEN).unsqueeze(1)
        mixed = F.scaled_dot_product_attention(q, k, v, bias).transpose(2, 3).flatten(3)
        y_nsf = out_of_windows(self.proj(mixed), self.space, self.window)
        return torch.roll(y_nsf, [self.shift] * len(dims), dims) if self.shift else y_nsf


class Block(nn.Module):
    def __init__(
        self,
        width: int,
        heads: int,
        space: tuple[int, ...],
        window: int,
        shift: int,
        around: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = WindowAttention(width, heads, space, window, shift, around)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x_nsf: torch.Tensor) -> torch.Tensor:
        x_nsf = x_nsf + self.attn(self.norm1(x_nsf))
        result: torch.Tensor = x_nsf + self.mlp(self.norm2(x_nsf))
        return result


class Merging(nn.Module):
    """Two positions along every dim become one of twice the width."""

    def __init__(self, width: int, dims: int) -> None:
        super().__init__()
        self.dims = dims
        self.reduction = nn.Linear(2**dims * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2**dims * width)

    def forward(self, x_nsf: torch.Tensor) -> torch.Tensor:
        corners = []
        for corner in product(range(2), repeat=self.dims):
            piece = x_nsf
            for dim, start in enumerate(reversed(corner), start=1):
                piece = piece[(slice(None),) * dim + (slice(start, None, 2),)]
            corners.append(piece)
        result: torch.Tensor = self.reduction(self.norm(torch.cat(corners, dim=-1)))
        return result


def stage(
    width: int, heads: int, blocks: int, space: tuple[int, ...], window: int, around: tuple[int, ...] = ()
) -> nn.Sequential:
    """Every second block shifts, unless one window is all there is. `around`: dims of space that have no edge."""
    shift = window // 2 if min(space) > window else 0
    shifts = (shift * (number % 2) for number in range(blocks))
    return nn.Sequential(*(Block(width, heads, space, window, own, around) for own in shifts))


class Swin(nn.Module):
    """`sizes` are the width, and blocks and heads of the stages; `image` is the side of the square that it reads."""

    def __init__(
        self,
        sizes: tuple[int, tuple[int, ...], tuple[int, ...]] = SWIN_T,
        classes: int = 1000,
        image: int = 224,
        patch: int = 4,
        window: int = 7,
    ) -> None:
        super().__init__()
        width, blocks, heads = sizes
        side = image // patch
        self.features = nn.Sequential()
        first = [nn.Conv2d(3, width, kernel_size=patch, stride=patch), ChannelsLast(), nn.LayerNorm(width)]
        self.features.append(nn.Sequential(*first))
        for number, (count, own) in enumerate(zip(blocks, heads, strict=True)):
            if number:
                self.features.append(Merging(width, 2))
                width, side = 2 * width, side // 2
            self.features.append(stage(width, own, count, (side, side), window))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.norm(self.features(x_nchw)).mean((1, 2)))
        return result


class ChannelsLast(nn.Module):
    def forward(self, x_nfs: torch.Tensor) -> torch.Tensor:
        return x_nfs.movedim(1, -1)


def _places(sizes: tuple[int, ...]) -> torch.Tensor:
    """`[position, dim]`."""
    return torch.cartesian_prod(*(torch.arange(size) for size in sizes)).view(prod(sizes), len(sizes))


def _relative(window: int, dims: int) -> torch.Tensor:
    """Of every pair of positions: which row of the table says how one lies to the other."""
    places = _places((window,) * dims)
    apart = places[:, None] - places[None] + window - 1
    index = torch.zeros(apart.shape[:2], dtype=torch.long)
    for dim in range(dims):
        index = index * (2 * window - 1) + apart[..., dim]
    return index.flatten()


def _regions(space: tuple[int, ...], window: int, shift: int, around: tuple[int, ...] = ()) -> torch.Tensor:
    """`[window, position]`: positions of a window that were neighbours before the shift have the same number."""
    if not shift:
        return torch.zeros(0, 0, dtype=torch.long)
    number = torch.zeros((1, *space, 1), dtype=torch.long)
    for dim, size in enumerate(space):
        place = torch.arange(size)
        along = (
            torch.zeros_like(place)
            if dim in around
            else (place >= size - window).long() + (place >= size - shift).long()
        )
        number = number * 3 + along.view([-1 if at == dim + 1 else 1 for at in range(len(space) + 2)])
    return in_windows(number, window)[0, ..., 0]
