"""Vision Transformer (Dosovitskiy 2020): patches of 16 x 16 are tokens, and one more stands for the class.

Parameters have torchvision's names, but for the attention: query, key and value are layers of their own, not one.
"""

import torch
import torch.nn.functional as F
from torch import nn

VIT_B = (12, 12, 768, 3072)  # blocks, heads, width, width of the MLP
VIT_L = (24, 16, 1024, 4096)


class _SelfAttention(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x_nqf: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            project(x_nqf).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        y_naqv = F.scaled_dot_product_attention(q, k, v)
        result: torch.Tensor = self.out_proj(y_naqv.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, heads: int, width: int, inner: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = _SelfAttention(heads, width)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Identity(), nn.Linear(inner, width))

    def forward(self, x_nqf: torch.Tensor) -> torch.Tensor:
        x_nqf = x_nqf + self.self_attention(self.ln_1(x_nqf))
        result: torch.Tensor = x_nqf + self.mlp(self.ln_2(x_nqf))
        return result


class _Encoder(nn.Module):
    def __init__(self, tokens: int, blocks: int, heads: int, width: int, inner: int) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width))
        self.layers = nn.Sequential()
        for number in range(blocks):
            self.layers.add_module(f"encoder_layer_{number}", Block(heads, width, inner))
        self.ln = nn.LayerNorm(width, eps=1e-6)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.pos_embedding, std=0.02)

    def forward(self, x_nqf: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.ln(self.layers(x_nqf + self.pos_embedding))
        return result


class ViT(nn.Module):
    """`sizes` are blocks, heads, width and the MLP's width; `image` is the side of the square that it reads."""

    def __init__(
        self, sizes: tuple[int, int, int, int] = VIT_B, classes: int = 1000, image: int = 224, patch: int = 16
    ) -> None:
        super().__init__()
        width = sizes[2]
        self.conv_proj = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.encoder = _Encoder((image // patch) ** 2 + 1, *sizes)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(width, classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.class_token)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        tokens = self.conv_proj(x_nchw).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], dim=1)
        result: torch.Tensor = self.heads(self.encoder(tokens)[:, 0])
        return result
