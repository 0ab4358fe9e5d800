"""`--batchnorm local` is what DDP computes, however the norms are sliced."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import Training
from slicewise.errors import PlanError, RequestError
from slicewise.graph.capture import capture
from slicewise.graph.chunks import with_local_statistics
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from slicewise.planning import baseline_plan
from slicewise.runtime.parallel import sliced
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.search.baselines import BASELINES
from tests.builders import machine
from tests.by_chunk import by_chunk
from tests.campaigns import sample
from tests.distributed.comparing import CUBES, Truth, compare, random_slicings, whole
from tests.distributed.world import World

TOLERANCE = 1e-10

NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "of features": (lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), (8,)),
    "1-D": (lambda: nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)), (4, 6)),
    "2-D": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, momentum=0.3)), (4, 5, 6)),
    "3-D": (lambda: nn.Sequential(nn.Conv3d(4, 4, 1), nn.BatchNorm3d(4)), (4, 4, 3, 4)),
    "without weights": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, affine=False)), (4, 5, 6)),
    "that tracks nothing": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, track_running_stats=False)),
        (4, 5, 6),
    ),
}


@pytest.mark.parametrize("batch", sample([8, 11, 14], quick=[11]))
@pytest.mark.parametrize("name", NORMS)
def test_every_slicing_of_a_local_norm_equals_one_device_that_goes_chunk_by_chunk(
    name: str, batch: int, world: World
) -> None:
    walked, wrong = world.run(_walk, name, batch, world.ranks)
    assert wrong == []
    assert {Dim.F} < walked if name != "of features" else {Dim.F} <= walked
    # on 4 ranks 14 samples have chunks of 4, 4, 4 and 2, which two parts of 7 would cut; 11 have 3, 3 | 3, 2
    assert (Dim.N in walked) == (batch != 14 or world.ranks == 2)


def _walk(name: str, batch: int, ranks: int) -> tuple[set[Dim | None], list[str]]:
    """All slicings of the norm; the layers around it are whole, or input and output would be sliced by sample."""
    mesh = Mesh.of({"local": ranks})
    build, shape = NORMS[name]
    torch.manual_seed(0)
    model = build()
    graph = with_local_statistics(capture(model, torch.zeros(2, *shape)).with_batch(batch), ranks)
    whole = {layer.name: (None,) * len(mesh.axes) for layer in graph}
    norm = next(layer for layer in graph if layer.kind is Kind.NORM)
    truth = Truth.of(by_chunk(model, ranks), graph)
    walked: set[Dim | None] = set()
    wrong = []
    for slicing in legal_slicings(norm, mesh, CUBES):
        difference = compare(model, graph, {**whole, norm.name: slicing}, mesh, truth=truth)
        walked |= set(slicing)
        if not difference.below(TOLERANCE):
            wrong.append(f"{slicing}: {difference}")
    return walked, wrong


class Block(nn.Module):
    """ResNet-18's."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
        self.conv2, self.bn2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters)
        self.short = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    ).double()


@cache
def _captured() -> LayerGraph:
    return capture(_network().float(), torch.zeros(2, 3, 16, 16))


def _graph(batch: int, ranks: int) -> LayerGraph:
    return with_local_statistics(_captured().with_batch(batch), ranks)


def _plans(graph: LayerGraph, ranks: int) -> dict[str, dict[str, Slicing]]:
    model = AnalyticModel(graph, machine(ranks), Training(batchnorm="local"))
    names = ("data", "spatial", "filter", "channel", "data+filter", "data+spatial")
    plans = {name: BASELINES[name](model) for name in names}
    return plans | {f"random {seed}": random_slicings(graph, machine(ranks).mesh, seed) for seed in range(3)}


@pytest.mark.long
def test_a_residual_network_under_any_plan_trains_as_under_ddp(quartet: World) -> None:
    """The last of its steps has fewer samples."""
    found = quartet.run(_trained_beside_ddp)
    assert {"data", "spatial", "filter", "data+filter", "data+spatial"} < set(found)
    assert {name: difference for name, difference in found.items() if not difference < TOLERANCE} == {}


def _trained_beside_ddp() -> dict[str, float]:
    """The largest difference of losses, weights and running statistics, by plan."""
    ranks = dist.get_world_size()
    ddp = nn.parallel.DistributedDataParallel(_network())
    wanted = _train(ddp)
    graph = _graph(16, ranks)
    found = {}
    for name, slicings in _plans(graph, ranks).items():
        net = SlicedModule(_network(), graph, slicings, machine(ranks).mesh)
        losses = _train(net)
        differences = [abs(one - other) for one, other in zip(losses, wanted, strict=True)]
        held = net.state_dict()
        differences += [float((whole(held[k]) - v).abs().max()) for k, v in ddp.module.state_dict().items()]
        found[name] = max(differences)
    return found


def _train(net: nn.Module, batches: Sequence[int] = (16, 16, 16, 8)) -> list[float]:
    """Losses of all ranks' samples; in the end of an evaluation, by running statistics."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step, samples in enumerate(batches):
        x, target = _mine(samples, step)
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(_mean(loss))
    net.eval()
    x, target = _mine(12, 9)
    return [*losses, _mean(F.cross_entropy(net(x), target))]


def _mine(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 3, 16, 16, generator=generator, dtype=torch.float64)
    target = torch.randint(5, (samples,), generator=generator)
    ranks, rank = dist.get_world_size(), dist.get_rank()
    return x.chunk(ranks)[rank], target.chunk(ranks)[rank]


def _mean(loss: Tensor) -> float:
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def test_ranks_may_pass_the_chunks_of_an_uneven_batch(quartet: World) -> None:
    """As a last batch under DDP; where samples are sliced otherwise, chunks would be cut."""
    found, refused = quartet.run(_uneven_beside_ddp)
    assert set(found) == {"data", "spatial", "filter", "channel"}
    assert {name: difference for name, difference in found.items() if not difference < TOLERANCE} == {}
    assert "cannot slice N=13 into 2: chunks of 4 samples share local statistics" in refused["data+filter"]
    assert "local batch norms take chunks of 4, 4, 4, 4 samples" in refused["filter"]


def _uneven_beside_ddp() -> tuple[dict[str, float], dict[str, str]]:
    ranks = dist.get_world_size()
    ddp = nn.parallel.DistributedDataParallel(_network())
    wanted = _train(ddp, (16, 13, 16))
    graph = _graph(16, ranks)
    plans = _plans(graph, ranks)
    found = {}
    for name in ("data", "spatial", "filter", "channel"):
        net = SlicedModule(_network(), graph, plans[name], machine(ranks).mesh)
        found[name] = max(abs(one - other) for one, other in zip(_train(net, (16, 13, 16)), wanted, strict=True))
    refused = {}
    other_counts = _mine(20, 0)[0][: 3 + 2 * (dist.get_rank() % 2)]  # 3, 5, 3, 5
    for name, samples in (("data+filter", _mine(13, 0)[0]), ("filter", other_counts)):
        net = SlicedModule(_network(), graph, plans[name], machine(ranks).mesh)
        with pytest.raises(RequestError) as error:
            net(samples)
        refused[name] = str(error.value)
    return found, refused


def test_an_uneven_batch_goes_in_the_chunks_that_ddp_would_get(quartet: World) -> None:
    """13 samples on 4 ranks: 4, 4, 4, 1."""
    differences = quartet.run(_uneven, 13)
    assert [told for told in differences if not told.below(TOLERANCE)] == []


def _uneven(batch: int) -> list[Any]:
    ranks = dist.get_world_size()
    graph, mesh = _graph(batch, ranks), machine(ranks).mesh
    truth = Truth.of(by_chunk(_network(), ranks), graph)
    plans = [random_slicings(graph, mesh, seed) for seed in range(4)]
    return [compare(_network(), graph, slicings, mesh, truth=truth) for slicings in plans]


def test_training_on_fewer_samples_than_ranks_is_refused_and_evaluating_is_not(quartet: World) -> None:
    refused, difference = quartet.run(_too_few)
    assert "3 samples do not reach 4 ranks; use batchnorm exact, or a batch of 4 or more" in refused
    assert difference < TOLERANCE


def _too_few() -> tuple[str, float]:
    ranks = dist.get_world_size()
    graph = _graph(7, ranks)
    net = SlicedModule(_network(), graph, dict.fromkeys(graph.index, (None, None)), machine(ranks).mesh)
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(PlanError) as refused:
        net(x)
    difference = (net.eval()(x).full_tensor() - _network().eval()(x)).detach().abs().max()
    return str(refused.value), float(difference)


def test_norms_that_begin_to_train_later_have_ddps_statistics(quartet: World) -> None:
    found = quartet.run(_thawed)
    assert {name: difference for name, difference in found.items() if not difference < TOLERANCE} == {}


def _thawed() -> dict[str, float]:
    """Every norm in eval mode for the first step, by plan."""
    ranks = dist.get_world_size()

    def train(net: nn.Module) -> dict[str, Tensor]:
        norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
        for training in (False, True, True):
            for norm in norms:
                norm.train(training)
            x, target = _mine(16, 0)
            F.cross_entropy(net(x), target).backward()
        return dict(net.state_dict())

    def frozen() -> nn.Module:
        model = _network()
        for module in model.modules():
            module.training = not isinstance(module, nn.BatchNorm2d)
        return model

    wanted = train(nn.parallel.DistributedDataParallel(frozen()))
    for value in wanted.values():
        dist.broadcast(value, src=0)  # DDP goes on from the first rank's statistics, and so do we
    graph = capture(frozen().float(), torch.zeros(2, 3, 16, 16))
    found = {}
    for name in ("data", "spatial", "data+filter"):
        plan = baseline_plan(graph, machine(ranks), name, batch=16, training=Training(batchnorm="local"))
        state = train(sliced(frozen(), plan, graph))
        found[name] = max(float((whole(state[k]) - wanted[f"module.{k}"]).abs().max()) for k in state)
    return found


def test_recomputed_passes_leave_running_statistics_alone(pair: World) -> None:
    assert pair.run(_recomputed) < TOLERANCE


def _recomputed() -> float:
    ranks = dist.get_world_size()
    graph = _graph(8, ranks)
    mesh = machine(ranks).mesh
    worst = 0.0
    for dim in (Dim.F, Dim.H, Dim.N):
        slicings = {
            layer.name: (dim if layer.kind is Kind.NORM else Dim.N if layer.kind.has(Trait.EDGE) else None,)
            for layer in graph
        }
        states = []
        for recompute in (False, True):
            net = SlicedModule(copy.deepcopy(_network()), graph, slicings, mesh, recompute=recompute)
            F.cross_entropy(net(_mine(8, 0)[0]), _mine(8, 0)[1]).backward()
            states.append({name: whole(value) for name, value in net.state_dict().items()})
        worst = max(worst, *(float((states[0][name] - value).abs().max()) for name, value in states[1].items()))
    return worst
