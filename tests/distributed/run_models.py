"""Networks and data for `run` on ranks that stay up, as a user would bring them."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset


def classified(samples: int) -> TensorDataset:
    """Of `residual`'s shape, in float64, with a class each: the same on every rank."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(samples, 4, 8, 8, dtype=torch.float64, generator=generator)
    return TensorDataset(x, torch.randint(8, (samples,), generator=generator))


def same_residual() -> nn.Module:
    """With the same weights on every rank, in float64."""
    torch.manual_seed(5)
    return residual()[0].double()


def residual() -> tuple[nn.Module, Tensor]:
    """Convolutions, norms, a shortcut and a linear layer: everything that communicates."""
    return _Residual(), torch.zeros(1, 4, 8, 8)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.last = nn.Linear(8 * 4 * 4, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = torch.relu(y + self.second(y))
        y = nn.functional.max_pool2d(y, 2)
        scores: Tensor = self.last(y.flatten(1))
        return scores


class _Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = _Residual()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.layers(x)}


def named() -> tuple[nn.Module, Tensor]:
    """Returns a dict, as many libraries' models do."""
    return _Named(), torch.zeros(1, 4, 8, 8)


def tokens() -> tuple[nn.Module, Tensor]:
    """Patches of an image as tokens, attention with a shortcut, a linear layer on their mean."""
    return _Tokens(), torch.zeros(1, 4, 8, 8)


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, 16, 2, stride=2)
        self.positions = nn.Parameter(torch.zeros(1, 16, 16))
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.last = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        z = self.norm(y)
        y = y + self.attention(z, z, z, need_weights=False)[0]
        scores: Tensor = self.last((y + self.mlp(y)).mean(1))
        return scores


def segmentation() -> tuple[nn.Module, Tensor]:
    """A class per position, and no layer that knows the input's size."""
    model = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
    return model, torch.zeros(1, 2, 16, 16)


def numbered_batches(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> list[tuple[Tensor, Tensor]]:
    """Three batches; every sample is filled with its own number, and no rank gets another's."""
    batches = []
    for step in range(3):
        numbers = torch.arange(batch) + batch * (rank + ranks * step)
        inputs = numbers.view(-1, *[1] * len(shape)).expand(batch, *shape) / 100
        batches.append((inputs, numbers % 8))
    return batches


def doubled_loss(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> object:
    return numbered_batches(
        batch, shape, rank, ranks
    ), lambda output, target: 2 * nn.functional.cross_entropy(output, target)


def spoilt_batches(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> list[tuple[Tensor, Tensor]]:
    """The last of three holds a NaN, on the last rank alone."""
    batches = numbered_batches(batch, shape, rank, ranks)
    if rank == ranks - 1:
        batches[-1][0][0, ..., 0] = torch.nan
    return batches


def undefined_gradient() -> tuple[nn.Module, Tensor]:
    """A finite loss; the first layer's gradient is infinity times zero."""
    return _UndefinedGradient(), torch.zeros(1, 4, 8, 8)


class _UndefinedGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8 * 8 * 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        scores: Tensor = self.last((y + torch.sqrt(y * 0)).flatten(1))
        return scores


def too_small(batch: int, shape: tuple[int, ...], rank: int, ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
    yield torch.zeros(batch - 1, *shape), torch.zeros(batch - 1, dtype=torch.int64)


class _Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv, self.last = nn.Embedding(9, 6), nn.Conv1d(6, 8, 3), nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(self.conv(self.table(words).transpose(1, 2)).mean(-1))
        return logits


def words() -> tuple[nn.Module, torch.Tensor]:
    """Reads whole numbers."""
    return _Words(), torch.zeros(1, 12, dtype=torch.int64)


def wide() -> tuple[nn.Module, torch.Tensor]:
    return nn.Conv2d(4, 4, 3).double(), torch.zeros(1, 4, 8, 8, dtype=torch.float64)
