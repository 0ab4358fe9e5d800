"""Batches smaller than the number of ranks: everybody passes the whole volume, or only a slab of it."""

import copy
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.runtime.sampling import data_loader
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import whole
from tests.distributed.world import World

CLASSES = 3
VOLUME = (1, 2, 7, 6, 8)  # 7 and 6 do not divide over 4 ranks


class Segment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y


@cache
def _graph() -> LayerGraph:
    return capture(Segment(), torch.zeros(VOLUME))


def _net(dims: tuple[Dim | None, ...]) -> tuple[SlicedModule, nn.Module]:
    torch.manual_seed(0)
    model, graph = Segment().double(), _graph()
    mesh = Mesh.of({"local": dist.get_world_size()})
    nothing: Slicing = (None,) * len(mesh.axes)
    slicings: dict[str, Slicing] = {layer.name: nothing if layer.kind is Kind.INPUT else dims for layer in graph}
    return SlicedModule(copy.deepcopy(model), graph, slicings, mesh), model


def _volume() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(VOLUME, dtype=torch.float64, generator=generator)
    return x, torch.randint(CLASSES, (VOLUME[0], *VOLUME[2:]), generator=generator)


def _dice(output: Tensor, target: Tensor) -> Tensor:
    """Of class numbers, as segmentation networks are trained."""
    shares = output.softmax(1)
    space = tuple(range(2, output.dim()))
    wanted = torch.stack([(target == number).to(shares.dtype) for number in range(CLASSES)], 1)
    both = (shares * wanted).sum(space)
    return 1 - ((2 * both + 1) / (shares.sum(space) + wanted.sum(space) + 1)).mean()


def _soft(output: Tensor, target: Tensor, loss: Callable[..., Tensor], **named: Any) -> Tensor:
    """A loss per position: class 0 against the target, scaled to [0, 1]."""
    return loss(output[:, 0].sigmoid(), (target / CLASSES).to(output.dtype), **named)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": F.cross_entropy,
    "cross-entropy, sum": lambda y, t: F.cross_entropy(y, t, reduction="sum"),
    "cross-entropy, none": lambda y, t: F.cross_entropy(y, t, reduction="none").square().sum(),
    "cross-entropy, ignoring": lambda y, t: F.cross_entropy(y, t, ignore_index=1),
    "cross-entropy, weighted": lambda y, t: F.cross_entropy(y, t, torch.tensor([1.0, 2.0, 4.0], dtype=y.dtype)),
    "cross-entropy, smoothed": lambda y, t: nn.CrossEntropyLoss(label_smoothing=0.1)(y, t),
    "nll": lambda y, t: F.nll_loss(F.log_softmax(y, 1), t),
    "dice": _dice,
    "dice and cross-entropy": lambda y, t: F.cross_entropy(y, t) + 0.5 * _dice(y, t),
    "mean of squares": lambda y, t: (y[:, 0] - t).square().mean(),
    "mean along dims": lambda y, t: y.square().mean((2, 3)).square().mean(),
    "mse": lambda y, t: _soft(y, t, F.mse_loss),
    "l1": lambda y, t: _soft(y, t, F.l1_loss),
    "smooth l1": lambda y, t: _soft(y, t, F.smooth_l1_loss, reduction="sum"),
    "huber": lambda y, t: _soft(y, t, F.huber_loss),
    "binary cross-entropy": lambda y, t: _soft(y, t, F.binary_cross_entropy),
    "logits": lambda y, t: _soft(y, t, F.binary_cross_entropy_with_logits),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_a_sliced_output_and_their_gradients_are_those_of_the_whole(world: World, name: str) -> None:
    loss, gradient = world.run(_loss_difference, name)
    assert loss < 1e-12
    assert gradient < 1e-12


def _cuts() -> list[tuple[Dim | None, ...]]:
    if dist.get_world_size() == 2:
        return [(Dim.D,), (Dim.H,), (Dim.W,), (None,)]
    return [(Dim.D, Dim.H), (Dim.W, Dim.W), (None, Dim.D)]


def _loss_difference(name: str) -> tuple[float, float]:
    losses, gradients = [0.0], [0.0]
    x, t = _volume()
    for dims in _cuts():
        net, model = _net(dims)
        got = LOSSES[name](net(x), net.shard(t))
        wanted = LOSSES[name](model(x), t)
        got.backward()
        wanted.backward()
        losses.append(abs(float(whole(got).detach() - wanted.detach())) / abs(float(wanted.detach())))
        for mine, theirs in zip(net.parameters(), model.parameters(), strict=True):
            assert theirs.grad is not None
            gradients.append(float((whole(mine.grad) - theirs.grad).abs().max()))
    return max(losses), max(gradients)


def test_a_rank_may_pass_only_its_slab_of_input_and_target(world: World) -> None:
    difference, share = world.run(_slabs)
    assert difference < 1e-13
    assert share < 0.6


def _slabs() -> tuple[float, float]:
    worst, share = 0.0, 0.0
    x, t = _volume()
    for dims in _cuts()[:2]:
        net, model = _net(dims)
        part = x[net.local_input()].clone()
        share = max(share, part.numel() / x.numel())
        output = net(net.slab(part))
        mine = t[net.local_target()]
        assert torch.equal(net.shard(t).to_local(), mine)
        worst = max(worst, float((net.gather(output) - model(x)).detach().abs().max()))
        rows = [net.local_input(rank) for rank in range(net.ranks)]
        assert rows[net.rank] == net.local_input()
    return worst, share


def test_a_slab_of_another_shape_is_refused(pair: World) -> None:
    first, second = pair.run_each(_wrong_slab)
    assert "rank 0 needs a slab of shape (1, 2, 4, 6, 8) (got (1, 2, 7, 6, 8))" in first
    assert "rank 1 needs a slab of shape (1, 2, 3, 6, 8) (got (1, 2, 7, 6, 8))" in second


def _wrong_slab() -> str:
    from slicewise.errors import PlanError

    net, _ = _net((Dim.D,))
    try:
        net.slab(_volume()[0])
    except PlanError as error:
        return str(error)
    return ""


class Noisy(Dataset[Any]):
    """Samples with random augmentation from all three generators that people use."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(torch.rand(())) + random.random() + float(np.random.rand())


def test_ranks_that_pass_the_whole_batch_load_the_same_samples_augmented_alike(pair: World) -> None:
    mine, other = pair.run(_epochs, True)
    assert mine == other
    assert mine[0] != mine[1]
    assert sorted(index for index, _ in mine[0]) == list(range(10))
    assert len({noise for epoch in mine for _, noise in epoch}) == 20


def test_ranks_with_samples_of_their_own_share_them_out(pair: World) -> None:
    mine, other = pair.run(_epochs, False)
    assert sorted(index for index, _ in (*mine[0], *other[0])) == list(range(10))


def _epochs(whole_batch: bool) -> list[list[list[tuple[int, float]]]]:
    """What each rank loads in two epochs."""
    net, _ = _net((Dim.D,))
    net.local_samples = not whole_batch
    torch.manual_seed(dist.get_rank())  # scripts seed ranks differently, or not at all
    loader = data_loader(Noisy(), net, batch=2)
    epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        epochs.append([(int(i), float(n)) for index, noise in loader for i, n in zip(index, noise, strict=True)])
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, epochs)
    return gathered
