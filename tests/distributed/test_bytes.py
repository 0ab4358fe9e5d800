"""What reaches the process group is what was predicted: bytes and collectives, layer by layer, rank by rank."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import slicewise as sw
from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.recost import recost
from slicewise.cost.tiers import bytes_by_tier
from slicewise.cost.training import Training
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import AlexNet, ResNet, UNet3d, ViT
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.search.baselines import baseline_slicings
from tests.builders import machine
from tests.campaigns import sample
from tests.distributed.comparing import random_slicings
from tests.distributed.prediction import by_layer, expected, kinds, planned
from tests.distributed.recording import Collective, recording
from tests.distributed.world import World
from tests.pricing import cost_of

# narrow, so that nothing but bytes matters; the layers are all there
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "alexnet": (lambda: AlexNet(classes=8, dropout=0.0, width=8, hidden=64), (3, 224, 224)),
    "resnet50": (lambda: ResNet(classes=8, width=8), (3, 64, 64)),
    "unet3d": (lambda: UNet3d(width=4), (1, 16, 16, 16)),
    "vit": (lambda: ViT((2, 4, 16, 32), classes=8, image=64), (3, 64, 64)),
}
SHORT = {"short resnet": (lambda: ResNet(blocks=(1, 1, 1, 1), classes=8, width=8), (3, 64, 64))}


EXACT, LOCAL = Training(), Training(batchnorm="local")


@pytest.mark.parametrize("name", sample(NETWORKS, quick=["unet3d", "vit"]))
def test_bytes_and_collectives_of_every_strategy_equal_the_prediction(name: str, world: World) -> None:
    _check(name, 4, world)


@pytest.mark.parametrize("batch", sample([8, 11], quick=[11]))
def test_they_do_where_batch_norms_are_local(batch: int, world: World) -> None:
    _check("short resnet", batch, world, LOCAL)


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_they_do_where_every_rank_gets_the_whole_batch(name: str, world: World) -> None:
    _check(name, 3, world)


@pytest.mark.parametrize("seed", range(3))
def test_whole_and_complex_numbers_count_with_their_own_size(seed: int, pair: World) -> None:
    graph = _words()[1]
    cluster = machine(pair.ranks)
    slicings = random_slicings(graph, cluster.mesh, seed)
    costs = AnalyticModel(graph, cluster)
    assert recost(graph, cluster, slicings) == pytest.approx(cost_of(costs, slicings).total_s, rel=1e-9)
    sent = pair.run(_words_sent, slicings)
    assert sent == cost_of(costs, slicings).bytes_moved == sum(bytes_by_tier(costs, slicings).values())


class _Words(nn.Module):
    """Words are read twice, and what they mean is turned in the complex plane."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8), nn.Linear(8, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        known = (words > 3).roll(1, 1)
        pairs = torch.fft.fft(torch.view_as_complex(self.table(words).unflatten(2, (4, 2))), dim=2)
        scores: torch.Tensor = self.head(torch.view_as_real(pairs * torch.fft.fft(pairs, dim=1)).flatten(2))
        return (scores * known[:, :, None]).mean(1)


def _words() -> tuple[nn.Module, LayerGraph]:
    torch.manual_seed(0)
    model = _Words()
    return model, capture(model, torch.zeros(4, 6, dtype=torch.int64))


def _words_sent(slicings: dict[str, Slicing]) -> int:
    model, graph = _words()
    mesh = machine(dist.get_world_size()).mesh
    net = SlicedModule(model, graph, slicings, mesh)
    words = torch.randint(20, (4 // mesh.devices if net.local_samples else 4, 6))
    with recording(mesh) as collectives:
        output = net(words)
        (output if net.local_samples else output.to_local()).sum().backward()
    total = torch.tensor(sum(one.sent_bytes for one in collectives), dtype=torch.float64)
    dist.all_reduce(total)
    return round(total.item())


def _check(name: str, batch: int, world: World, training: Training = EXACT) -> None:
    cluster = machine(world.ranks)
    graph = _network(name, batch, world.ranks, training)[1]
    plans = _plans(graph, cluster)
    assert {"spatial", "filter", "layerwise", "random"} <= set(plans)
    assert batch < world.ranks or "data" in plans
    costs = AnalyticModel(graph, cluster, training)
    for label, slicings in plans.items():
        rank_bytes = by_layer(expected(graph, slicings, cluster.mesh), world.ranks)
        totals = {key: round(count.sum()) for key, count in rank_bytes.items() if count.any()}
        assert totals == planned(costs.plan_costs(slicings)), label
    sent, wrong = world.run(_steps, name, batch, world.ranks, training, plans)
    assert wrong == []
    assert sent == {label: cost_of(costs, slicings).bytes_moved for label, slicings in plans.items()}


def _network(name: str, batch: int, ranks: int, training: Training) -> tuple[nn.Module, LayerGraph]:
    build, shape = (NETWORKS | SHORT)[name]
    torch.manual_seed(0)
    model = build()
    graph = capture(model, torch.zeros(2, *shape), name=name).with_batch(batch)
    return model, training.normalised(graph, ranks)


def _plans(graph: LayerGraph, cluster: Cluster) -> dict[str, dict[str, Slicing]]:
    """Every strategy of the registry that exists for this network, the searched plan, and a random one."""
    return {
        **baseline_slicings(AnalyticModel(graph, cluster))[0],
        "layerwise": dict(sw.plan(graph, cluster, gap=0.1).slicings),
        "random": random_slicings(graph, cluster.mesh, 0),
    }


def _steps(
    name: str, batch: int, ranks: int, training: Training, plans: dict[str, dict[str, Slicing]]
) -> tuple[dict[str, int], list[str]]:
    """What all ranks sent under each plan, and where a layer differs on one of them."""
    mesh = machine(ranks).mesh
    model, graph = _network(name, batch, ranks, training)
    sent: dict[str, int] = {}
    wrong: list[str] = []
    for label, slicings in plans.items():
        step = _step(model, graph, slicings, mesh)
        wanted = expected(graph, slicings, mesh)
        found = Counter((one.layer, one.term, one.op, one.axes) for one in step)
        if found != kinds(wanted):
            wrong.append(f"{label}: {found - kinds(wanted)} too many, {kinds(wanted) - found} too few")
        mine = {key: count[dist.get_rank()] for key, count in by_layer(wanted, ranks).items()}
        received = dict.fromkeys(mine, 0.0)
        for one in step:
            received[one.layer, one.term] += one.routed_bytes
        wrong += [
            f"{label}: {key} receives {count}, not {mine[key]}"
            for key, count in received.items()
            if count != pytest.approx(mine[key], rel=1e-12)
        ]
        total = torch.tensor(sum(one.sent_bytes for one in step), dtype=torch.float64)
        dist.all_reduce(total)
        sent[label] = round(total.item())
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, wrong)
    return sent, [told for rank in everywhere for told in rank]


def _step(model: nn.Module, graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh) -> list[Collective]:
    net = SlicedModule(model, graph, slicings, mesh)
    x = torch.randn(graph.batch // mesh.devices if net.local_samples else graph.batch, *graph.inputs[0].shape[1:])
    with recording(mesh) as collectives:
        output = net(x)
        (output if net.local_samples else output.to_local()).sum().backward()
    return collectives
