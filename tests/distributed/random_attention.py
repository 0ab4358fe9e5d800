"""Blocks of tokens for random networks: attention, products and windows, around which the shape stays as it is."""

import random
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """x + last(mixed tokens), for any number of dims of space."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, channels)
        self.embed = nn.Linear(channels, width)

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.flatten(2).transpose(1, 2))
        q, k, v = self.first(self.norm(tokens)).chunk(3, dim=-1)
        y: Tensor = self.last(tokens + self.mixed(q, k, v)).transpose(1, 2)
        return x + y.reshape(x.shape)


class Attention(Block):
    def __init__(self, channels: int, heads: int, per_head: int, way: str) -> None:
        super().__init__(channels, heads * per_head)
        self.heads, self.way = heads, way

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(2, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        if self.way == "spelled out":
            y = F.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1) @ v
        elif self.way == "pooled keys":
            y = F.scaled_dot_product_attention(q, k[:, :, ::2], v[:, :, ::2])
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.way == "causal")
        return y.transpose(1, 2).flatten(2)


class Products(Block):
    """Channels that look at channels."""

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("...qc,...dc->...qd", q, F.softmax(torch.bmm(k.transpose(1, 2), v) * 0.1, dim=-1))


class Windows(nn.Module):
    """Attention inside of windows of two positions along every dim, maybe shifted by one."""

    def __init__(self, channels: int, shift: int) -> None:
        super().__init__()
        self.inner, self.shift = Attention(channels, 1, 2, "plain"), shift

    def forward(self, x: Tensor) -> Tensor:
        n, channels, *space = x.shape
        dims = tuple(range(2, x.dim()))
        shifted = torch.roll(x, [-self.shift] * len(dims), dims) if self.shift else x
        pieces = shifted.view(n, channels, *(part for size in space for part in (size // 2, 2)))
        grid, inside = [2 + 2 * d for d in range(len(space))], [3 + 2 * d for d in range(len(space))]
        windows = pieces.permute(0, *grid, 1, *inside).reshape(n * prod(space) // 2 ** len(space), channels, -1)
        y = self.inner(windows).view(n, *(size // 2 for size in space), channels, *[2] * len(space))
        count = len(space)
        back = [0, 1 + count, *(place for d in range(count) for place in (1 + d, 2 + count + d))]
        y = y.permute(*back).reshape(x.shape)
        return torch.roll(y, [self.shift] * len(dims), dims) if self.shift else y


def random_block(pick: random.Random, shape: tuple[int, ...]) -> nn.Module:
    """`shape` of a sample: channels and space."""
    channels, *space = shape
    even = all(size % 2 == 0 for size in space)
    kind = pick.choice(["attention", "attention", "products", "windows"])
    if kind == "windows" and even:
        return Windows(channels, pick.randint(0, 1))
    if kind == "products":
        return Products(channels, pick.randint(2, 5))
    ways = ["plain", "causal", "spelled out", "pooled keys"]
    return Attention(channels, pick.randint(1, 4), pick.randint(1, 4), pick.choice(ways))
