"""UNETR (Hatamizadeh 2021): a Vision Transformer reads a volume in patches, a convolutional decoder its layers."""

import torch
import torch.nn.functional as F
from torch import nn

from slicewise.graph.zoo.vit import Block

UNETR = (12, 12, 768, 3072)  # blocks, heads, width, width of the MLP


class ConvBlock(nn.Module):
    """Two convolutions, each normalised, and the input added; where the channels change, through a third."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        self.conv2 = nn.Conv3d(outputs, outputs, kernel_size=3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.InstanceNorm3d(outputs), nn.InstanceNorm3d(outputs)
        self.skip = nn.Conv3d(inputs, outputs, kernel_size=1, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.norm1(self.conv1(x)), 0.01)
        return F.leaky_relu(self.norm2(self.conv2(y)) + self.skip(x), 0.01)


class UpBlock(nn.Module):
    """Twice the space, beside what the encoder saw there."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(inputs, outputs, kernel_size=2, stride=2, bias=False)
        self.conv = ConvBlock(2 * outputs, outputs)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.conv(torch.cat([self.up(x), skip], dim=1))
        return result


class UNETR3d(nn.Module):
    """`sizes` are blocks, heads, width and the MLP's width; `volume` is the side of the cube that it reads."""

    def __init__(
        self,
        sizes: tuple[int, int, int, int] = UNETR,
        features: int = 16,
        classes: int = 14,
        volume: int = 96,
        patch: int = 16,
    ) -> None:
        super().__init__()
        blocks, heads, width, inner = sizes
        self.side = volume // patch
        self.patches = nn.Conv3d(1, width, kernel_size=patch, stride=patch)
        self.position = nn.Parameter(torch.empty(1, self.side**3, width))
        self.blocks = nn.ModuleList(Block(heads, width, inner) for _ in range(blocks))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        wide = [features * 2**number for number in range(4)]  # at full, half, fourth and eighth resolution
        self.whole = ConvBlock(1, wide[0])
        self.taps = nn.ModuleList(
            _grown(width, channels, steps) for channels, steps in zip(wide[1:], (3, 2, 1), strict=True)
        )
        self.up = nn.ModuleList(
            UpBlock(inputs, outputs) for inputs, outputs in zip((*wide[1:], width), wide, strict=True)
        )
        self.out = nn.Conv3d(wide[0], classes, kernel_size=1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.position, std=0.02)

    def forward(self, x_ncdhw: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x_ncdhw).flatten(2).transpose(1, 2) + self.position
        seen = [self.whole(x_ncdhw)]
        every = len(self.blocks) // 4
        for number, block in enumerate(self.blocks, start=1):
            tokens = block(tokens)
            if number % every == 0 and len(seen) <= len(self.taps):
                seen.append(self.taps[len(seen) - 1](self._image(tokens)))
        y = self._image(self.norm(tokens))
        for up, skip in zip(reversed(self.up), reversed(seen), strict=True):
            y = up(y, skip)
        result: torch.Tensor = self.out(y)
        return result

    def _image(self, tokens: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = tokens.transpose(1, 2).unflatten(2, (self.side,) * 3)
        return image


def _grown(inputs: int, outputs: int, steps: int) -> nn.Sequential:
    """Tokens as an image of twice their space, `steps` times."""
    layers: list[nn.Module] = [nn.ConvTranspose3d(inputs, outputs, kernel_size=2, stride=2, bias=False)]
    for _ in range(steps - 1):
        layers += [
            nn.ConvTranspose3d(outputs, outputs, kernel_size=2, stride=2, bias=False),
            ConvBlock(outputs, outputs),
        ]
    return nn.Sequential(*layers)
