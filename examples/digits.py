"""A small CNN for handwritten digits, and the digits: what the two training scripts have in common."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset


def network() -> tuple[nn.Module, Tensor]:
    """The model and a sample of what it takes: `slicewise plan examples/digits.py:network`."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )
    return model, torch.zeros(64, 1, 8, 8)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,536 images to train on, 256 to test on, 8 x 8 pixels each."""
    bunch = load_digits()
    images = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(bunch.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1536], order[1536:1792]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])
