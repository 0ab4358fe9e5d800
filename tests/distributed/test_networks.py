"""Whole networks under random plans: the numbers of one device, and exactly the bytes that were predicted."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

from slicewise.cluster.cluster import parse_cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import PLAIN
from slicewise.graph.capture import capture
from slicewise.graph.zoo import AlexNet, UNet3d
from slicewise.partition.buckets import buckets
from slicewise.partition.layout import Slicing
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.search.baselines import BASELINES
from tests.campaigns import sample
from tests.distributed.comparing import Truth, compare, counted_bytes, random_slicings
from tests.distributed.world import World
from tests.pricing import cost_of

TOLERANCE = 1e-10

CLUSTER = """
name = "test"
[device]
name = "any"
peak_flops_per_s = 1e10
memory_bytes_per_s = 1e10
memory_bytes = 1e10
kernel_s = 1e-6
[device.efficiency]
conv = 1.0
conv_backward = 1.0
linear = 1.0
linear_backward = 1.0
[[tiers]]
name = "local"
size = 2
latency_s = 1e-6
bytes_per_s = 1e9
"""


class Residual(nn.Module):
    """A block with a fork, batch norms, an addition and a strided shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(12)
        self.shortcut = nn.Conv2d(8, 12, 1, stride=2)
        self.head = nn.Linear(12 * 5 * 6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu_(self.norm1(self.first(x)))
        y = self.norm2(self.second(x))
        y += self.shortcut(x)
        result: torch.Tensor = self.head(torch.flatten(torch.relu_(y), 1))
        return result


# name -> (build, sample shape, batches: one that divides over 4 ranks, one that does not)
NETWORKS = {
    "residual": (Residual, (3, 10, 12), (8, 5)),
    "alexnet": (lambda: AlexNet(classes=8, dropout=0.0, width=8, hidden=64), (3, 224, 224), (4,)),
    "unet3d": (lambda: UNet3d(width=4, depth=2), (1, 16, 12, 8), (4, 1)),
}


def test_a_residual_block_equals_one_device_under_random_plans(world: World) -> None:
    assert world.run(_differences, "residual", world.ranks, range(12)) == []


def test_alexnet_equals_one_device_under_random_plans(world: World) -> None:
    assert world.run(_differences, "alexnet", world.ranks, range(2)) == []


def test_a_3d_unet_equals_one_device_under_random_plans(world: World) -> None:
    assert world.run(_differences, "unet3d", world.ranks, range(4)) == []


@pytest.mark.parametrize("name", sample(NETWORKS, quick=["residual"]))
def test_counted_bytes_equal_predicted_bytes_for_random_plans(name: str, world: World) -> None:
    pairs = world.run(_bytes, name, world.ranks)
    assert len(pairs) >= 3
    for label, predicted, counted in pairs:
        assert counted == predicted, label


def test_three_optimizer_steps_give_the_weights_of_one_device(pair: World) -> None:
    assert pair.run(_trained_difference) < 1e-12


def test_gradients_add_up_over_backward_passes_until_they_are_cleared(pair: World) -> None:
    assert pair.run(_accumulated_difference) < 1e-12


def test_running_statistics_equal_one_device(pair: World) -> None:
    assert pair.run(_running_statistics_difference) < 1e-12


def test_data_parallel_gradients_travel_in_as_many_all_reduces_as_there_are_buckets(pair: World) -> None:
    numbers = []
    for size in (PLAIN.bucket_items, 1 << 18, 1):
        counted, planned = pair.run(_sync_collectives, size)
        assert counted == planned
        numbers.append(counted)
    assert len(set(numbers)) == len(numbers)


def _network(name: str) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = NETWORKS[name][0]()
    return model


def _differences(name: str, ranks: int, seeds: range) -> list[str]:
    mesh = Mesh.of({"local": ranks})
    model = _network(name)
    graph = capture(model, torch.zeros(2, *NETWORKS[name][1]))
    wrong = []
    for batch in NETWORKS[name][2]:
        sized = graph.with_batch(batch)
        truth = Truth.of(model, sized)
        for seed in seeds:
            slicings = random_slicings(sized, mesh, seed)
            difference = compare(model, sized, slicings, mesh, truth=truth)
            if not difference.below(TOLERANCE):
                wrong.append(f"batch {batch}, seed {seed}: {difference}, {slicings}")
    return wrong


def _bytes(name: str, ranks: int) -> list[tuple[str, int, int]]:
    cluster = parse_cluster(CLUSTER, "test").with_devices(ranks)
    model = _network(name)
    captured = capture(model, torch.zeros(2, *NETWORKS[name][1]))
    pairs = []
    for batch in NETWORKS[name][2]:
        graph = captured.with_batch(batch)
        costs = AnalyticModel(graph, cluster)
        plans: dict[str, dict[str, Slicing]] = {
            f"random {seed}": random_slicings(graph, cluster.mesh, seed) for seed in range(3)
        }
        for label, slicings in plans.items():
            predicted = cost_of(costs, slicings).bytes_moved
            pairs.append((label, predicted, counted_bytes(model, graph, slicings, cluster.mesh)))
    return pairs


def _trained(accumulate: bool) -> tuple[nn.Module, SlicedModule]:
    mesh = Mesh.of({"local": 2})
    model = _network("residual").double()
    graph = capture(model, torch.zeros(2, 3, 10, 12, dtype=torch.float64)).with_batch(8)
    net = SlicedModule(copy.deepcopy(model), graph, random_slicings(graph, mesh, 4), mesh)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (model, net)]
    torch.manual_seed(5)
    for _ in range(3):
        x = torch.randn(8, 3, 10, 12, dtype=torch.float64)
        mine = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
        model(x).square().mean().backward()
        net(x[mine]).square().mean().backward()
        if not accumulate:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    return model, net


def _trained_difference() -> float:
    model, net = _trained(accumulate=False)
    weights = dict(net.named_parameters())
    assert list(weights) == [name for name, _ in model.named_parameters()]
    return max(
        float((weights[name].detach().full_tensor() - value.detach()).abs().max())  # type: ignore[attr-defined]
        for name, value in model.named_parameters()
    )


def _accumulated_difference() -> float:
    model, net = _trained(accumulate=True)
    weights = dict(net.named_parameters())
    return max(
        float((weights[name].grad.full_tensor() - value.grad).abs().max())  # type: ignore[union-attr]
        for name, value in model.named_parameters()
    )


def _running_statistics_difference() -> float:
    model, net = _trained(accumulate=False)
    truth, given = model.state_dict(), net.state_dict()
    assert set(given) == set(truth)
    return max(float((given[name].full_tensor() - value).abs().max()) for name, value in truth.items())


def _sync_collectives(bucket_items: int) -> tuple[int, int]:
    mesh = Mesh.of({"local": 2})
    model = AlexNet(classes=8, dropout=0.0, width=8, hidden=1024)
    graph = capture(model, torch.zeros(2, 3, 224, 224)).with_batch(2)
    slicings = BASELINES["data"](AnalyticModel(graph, parse_cluster(CLUSTER, "test")))
    net = SlicedModule(model, graph, slicings, mesh, bucket_items=bucket_items)
    net(torch.randn(1, 3, 224, 224)).sum().backward()
    with CountCollectives() as counted:
        net(torch.randn(1, 3, 224, 224)).sum().backward()
    return counted.collectives["all_reduce"], len(buckets(graph, slicings, mesh, bucket_items))
