"""A small CNN with batch norms on scikit-learn's digits: 1,797 images of 8 x 8, ten classes."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import slicewise as sw

BATCH = 128
TRAINING = 11 * BATCH  # images; the other 388 (an even number: two ranks share them) are the test set
CLASSES = 10
TESTS = 388

# every kind of slicing in one network: where its layers go on two ranks
MIXED = (
    "features.0=H", "features.1=H", "features.2=H",
    "features.3=W", "features.4=W", "features.5=W", "features.6=W",
    "features.7=F", "features.8=F", "features.9=F",
    "classifier.0=C", "classifier.2=N",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    losses: list[float]  # per step, over the whole batch
    accuracies: list[float]  # per epoch, on the test set


def network(dtype: torch.dtype) -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(0)
    features = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.Flatten(),
    )
    classifier = nn.Sequential(nn.Linear(16 * 4 * 4, 32), nn.ReLU(inplace=True), nn.Linear(32, CLASSES))
    return nn.Sequential(OrderedDict(features=features, classifier=classifier)).to(dtype)


def plan(strategy: str, dtype: torch.dtype) -> sw.Plan:
    """`data`, or `mixed`: layers by height, width, filter, input channel and sample in turn."""
    graph = sw.capture(network(dtype), torch.zeros(2, 1, 8, 8, dtype=dtype))
    fixed = ("*=N",) if strategy == "data" else MIXED
    return sw.plan(graph, "dgx-a100", devices=2, batch=BATCH, fix=fixed)


def train(strategy: str, epochs: int, dtype: torch.dtype) -> Curve:
    """On one device (`one device`), or on this rank of two; every rank returns the same curve."""
    images, labels = _digits(dtype)
    model = network(dtype)
    net: nn.Module = model
    if strategy != "one device":
        graph = sw.capture(model, torch.zeros(2, 1, 8, 8, dtype=dtype))
        net = sw.parallelize(model, plan(strategy, dtype), graph=graph)
    part, total = _shares(parallel=net is not model)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(1)
    losses, accuracies = [], []
    for _ in range(epochs):
        net.train()
        for chosen in torch.randperm(TRAINING, generator=order).split(BATCH):
            mine = part(chosen)
            loss = F.cross_entropy(net(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(total(loss.detach()))
        net.eval()
        with torch.no_grad():
            mine = part(torch.arange(TRAINING, TRAINING + TESTS))
            right = (net(images[mine]).argmax(1) == labels[mine]).to(torch.float64).mean()
        accuracies.append(total(right))
    return Curve(losses=losses, accuracies=accuracies)


def _shares(parallel: bool) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], float]]:
    """This rank's share of some samples, and the mean of all ranks' means."""
    if not parallel:
        return lambda samples: samples, float

    def mean(value: Tensor) -> float:
        value = value.clone()
        dist.all_reduce(value)
        return float(value) / dist.get_world_size()

    return lambda samples: samples.chunk(dist.get_world_size())[dist.get_rank()], mean


def _digits(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shuffled once and for all; pixels between 0 and 1."""
    loaded = load_digits()
    images, labels = torch.tensor(loaded.images, dtype=dtype) / 16, torch.tensor(loaded.target)
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return images[shuffled].unsqueeze(1), labels[shuffled]
