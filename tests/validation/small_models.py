"""Models as a user would bring them: factories in a file."""

import os

import torch
from torch import nn


def classifier() -> tuple[nn.Module, torch.Tensor]:
    """A network whose linear layer holds nearly all weights: worth slicing by filter."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(512, 10),
    )
    return model, torch.zeros(1, 3, 16, 16)


def one_channel() -> tuple[nn.Module, torch.Tensor]:
    """A regression: nothing for the synthetic classes of `run`."""
    return nn.Conv2d(3, 1, 3, padding=1), torch.zeros(1, 3, 8, 8)


def unsized() -> nn.Module:
    return classifier()[0]


class _Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


def branching() -> tuple[nn.Module, torch.Tensor]:
    return _Branching(), torch.zeros(1, 3, 4, 4)


def fails_on_rank_one() -> tuple[nn.Module, torch.Tensor]:
    if os.environ.get("RANK") == "1":
        raise MemoryError("no room for the weights")
    return classifier()
