"""A weather model: attention in shifted windows on a grid of the earth, in the manner of Pangu-Weather and FuXi.

It reads 69 fields of 721 x 1440 positions (a quarter of a degree) and writes them some hours later. As in FourCastNet,
the last row, a pole, is left out. Longitudes go round: windows that the shift takes over the edge are still one.
"""

import torch
from torch import nn

from slicewise.graph.zoo.swin import ChannelsLast, Merging, stage


class WeatherSwin(nn.Module):
    """Blocks on patches, on patches twice as wide, and on patches again, which see what the first ones made of them."""

    def __init__(
        self,
        fields: int = 69,
        width: int = 128,
        blocks: tuple[int, int, int] = (2, 4, 2),
        heads: int = 4,
        image: tuple[int, int] = (721, 1440),
        patch: int = 4,
        window: int = 5,
    ) -> None:
        super().__init__()
        unit = 2 * patch * window
        self.rows = image[0] // unit * unit
        fine = (self.rows // patch, image[1] // patch)
        coarse = (fine[0] // 2, fine[1] // 2)
        first, second, third = blocks
        self.embed = nn.Sequential(nn.Conv2d(fields, width, patch, stride=patch), ChannelsLast(), nn.LayerNorm(width))
        self.encoder = stage(width, heads, first, fine, window, around=(1,))
        self.down = Merging(width, 2)
        self.middle = stage(2 * width, 2 * heads, second, coarse, window, around=(1,))
        self.up = Spreading(2 * width)
        self.join = nn.Linear(2 * width, width)
        self.decoder = stage(width, heads, third, fine, window, around=(1,))
        self.recover = nn.ConvTranspose2d(width, fields, patch, stride=patch)

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        seen_nhwf = self.encoder(self.embed(x_nchw[:, :, : self.rows]))
        wide_nhwf = self.up(self.middle(self.down(seen_nhwf)))
        y_nhwf = self.decoder(self.join(torch.cat([seen_nhwf, wide_nhwf], dim=-1)))
        result: torch.Tensor = self.recover(y_nhwf.movedim(-1, 1))
        return result


class Spreading(nn.Module):
    """One position becomes two along both dims, of half the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expansion = nn.Linear(width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(width // 2)

    def forward(self, x_nhwf: torch.Tensor) -> torch.Tensor:
        samples, height, width, _ = x_nhwf.shape
        pieces = self.expansion(x_nhwf).view(samples, height, width, 2, 2, -1).permute(0, 1, 3, 2, 4, 5)
        result: torch.Tensor = self.norm(pieces.reshape(samples, 2 * height, 2 * width, -1))
        return result
