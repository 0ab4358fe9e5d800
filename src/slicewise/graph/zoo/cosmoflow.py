"""CosmoFlow as the ParaDL oracle tabulates it: a regression on volumes of 4 x 256^3, 2.13 M parameters.

Sizes per side: 256 -> 128 -> 64 -> 32 -> 16 -> 8 -> 4 -> 2 -> 1. The table keeps the size in the 2 x 2 x 2
convolutions, which takes padding on one side only; padded on both, their output is one position wider, which the
pooling after them drops again.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import nn

from slicewise.errors import RequestError

LEAST = 152  # positions of a side: fewer leave none for the head


class CosmoFlow(nn.Module):
    """`width` is the first convolution's filters; the others keep their ratio. The head follows the volume's size."""

    def __init__(
        self,
        inputs: int = 4,
        targets: int = 4,
        width: int = 16,
        hidden: int = 2048,
        volume: Sequence[int] = (256, 256, 256),
    ) -> None:
        super().__init__()
        left = [_left_of(size) for size in volume]
        if min(left) < 1:
            spelled = "x".join(map(str, volume))
            raise RequestError(f"cosmoflow needs volumes of at least {LEAST} a side (got {spelled})")
        self.features = nn.Sequential(
            *_stage(inputs, width, kernel=3),
            *_stage(width, 2 * width, kernel=3),
            *_stage(2 * width, 4 * width, kernel=3),
            *_stage(4 * width, 8 * width, kernel=3, stride=2),
            *_stage(8 * width, 16 * width, kernel=2),
            *_stage(16 * width, 16 * width, kernel=2),
            nn.Conv3d(16 * width, 8 * width, kernel_size=2),
            nn.ReLU(inplace=True),
        )
        self.regressor = nn.Sequential(
            nn.Linear(8 * width * prod(left), hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden // 8),
            nn.ReLU(inplace=True),
            nn.Linear(hidden // 8, targets),
        )

    def forward(self, x_ncdhw: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.regressor(torch.flatten(self.features(x_ncdhw), 1))
        return y


def _left_of(size: int) -> int:
    """Positions of one side that reach the head: 1 of 256, 3 of 512."""
    size = (size // 8 + 1) // 2 // 2
    return ((size + 1) // 2 + 1) // 2 - 1


def _stage(inputs: int, outputs: int, *, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv3d(inputs, outputs, kernel_size=kernel, stride=stride, padding=1),
        nn.ReLU(inplace=True),
        nn.AvgPool3d(kernel_size=2, stride=2),
    ]
