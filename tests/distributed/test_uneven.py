"""Ranks that pass different numbers of samples: DDP's numbers, or every rank says which."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.errors import PlanError
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import flat_mesh, random_slicings, whole
from tests.distributed.world import World

COUNTS = {2: (3, 2), 4: (8, 8, 8, 5)}


def _model(norm: bool) -> nn.Module:
    torch.manual_seed(0)
    norms = [nn.BatchNorm2d(8)] if norm else []
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), *norms, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4)
    ).double()


def _graph(model: nn.Module) -> LayerGraph:
    return capture(model, torch.zeros(2, 3, 8, 8, dtype=torch.float64)).with_batch(8 * dist.get_world_size())


def _batch() -> tuple[Tensor, Tensor]:
    """This rank's samples."""
    counts = COUNTS[dist.get_world_size()]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(sum(counts), 3, 8, 8, dtype=torch.float64, generator=generator)
    t = torch.randint(4, (sum(counts),), generator=generator)
    rank = dist.get_rank()
    return x.split(counts)[rank], t.split(counts)[rank]


def _off_from_ddp(net: SlicedModule, model: nn.Module) -> float:
    """Output, gradients and running statistics, with the whole batch's norms on both sides."""
    ddp = nn.parallel.DistributedDataParallel(model)
    x, t = _batch()
    worst = 0.0
    for _ in range(2):
        got, wanted = net(x), ddp(x)
        worst = max(worst, float((got - wanted).detach().abs().max()))
        F.cross_entropy(got, t).backward()
        F.cross_entropy(wanted, t).backward()
    return max(worst, _gradients_off(net, model))


def _gradients_off(net: nn.Module, model: nn.Module) -> float:
    expected = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    given = {name: whole(parameter.grad) for name, parameter in net.named_parameters()}
    return max(float((given[name] - gradient).abs().max()) for name, gradient in expected.items())


def test_an_uneven_batch_has_the_numbers_of_ddp_under_every_plan(world: World) -> None:
    assert world.run(_uneven) < 1e-12


def _uneven() -> float:
    model = _model(norm=False)
    graph = _graph(model)
    plans: list[dict[str, Slicing]] = [dict.fromkeys(graph.index, (Dim.N,) * len(flat_mesh().axes))]
    plans += [random_slicings(graph, flat_mesh(), seed) for seed in range(4)]
    nets = [SlicedModule(copy.deepcopy(model), graph, slicings, flat_mesh()) for slicings in plans]
    return max(_off_from_ddp(net, copy.deepcopy(model)) for net in nets)


def test_exact_norms_of_an_uneven_batch_are_those_of_one_device(world: World) -> None:
    assert world.run(_uneven_norms) < 1e-12


def _uneven_norms() -> float:
    model, ranks = _model(norm=True), dist.get_world_size()
    graph = _graph(model)
    counts = COUNTS[ranks]
    x, t = _batch()
    every: list[tuple[Tensor, Tensor]] = [(x, t)] * ranks
    dist.all_gather_object(every, (x, t))
    worst = 0.0
    for seed in range(3):
        reference = copy.deepcopy(model)
        slicings = (
            random_slicings(graph, flat_mesh(), seed)
            if seed
            else dict.fromkeys(graph.index, (Dim.N,) * len(flat_mesh().axes))
        )
        net = SlicedModule(copy.deepcopy(model), graph, slicings, flat_mesh())
        wanted = reference(torch.cat([samples for samples, _ in every])).split(counts)
        got = net(x)
        worst = max(worst, float((got - wanted[dist.get_rank()]).detach().abs().max()))
        F.cross_entropy(got, t).backward()
        torch.stack([F.cross_entropy(y, u) for y, (_, u) in zip(wanted, every, strict=True)]).mean().backward()
        worst = max(worst, _gradients_off(net, reference))
        held = dict(reference.named_buffers())
        for name, buffer in net.named_buffers():
            worst = max(worst, float((whole(buffer) - held[name]).abs().max()))
    return worst


def test_ranks_with_samples_of_different_shapes_all_raise(pair: World) -> None:
    for said in pair.run(_other_shapes):
        assert "rank 0 passes (4, 3, 8, 8)" in said
        assert "rank 1 passes (4, 3, 10, 8)" in said


def _other_shapes() -> list[str]:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
    graph = capture(model, torch.zeros(8, 3, 8, 8))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    net = SlicedModule(model, graph, slicings, flat_mesh())
    return _everyones(lambda: net(torch.zeros(4, 3, 8 + 2 * dist.get_rank(), 8)))


INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    "no samples": (lambda: torch.zeros(0, 3, 8, 8), "every rank needs a sample"),
    "channels": (lambda: torch.zeros(4, 4, 8, 8), "rank 1 passes (4, 4, 8, 8)"),
    "dims": (lambda: torch.zeros(4, 1, 3, 8, 8), "rank 1 passes (4, 1, 3, 8, 8)"),
    "dtype": (lambda: torch.zeros(4, 3, 8, 8).double(), "rank 1 passes (4, 3, 8, 8) of torch.float64"),
    "a list": (lambda: [1], "must be a tensor (got list)"),
    "a number": (lambda: torch.tensor(1.0), "must be a batch of samples (got one number)"),
    "gradients": (lambda: torch.zeros(4, 3, 8, 8, requires_grad=True), "gradients of the input are not computed"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_rank_that_passes_what_no_network_takes_is_told_on_all(pair: World, name: str) -> None:
    for dim in (Dim.N, Dim.F):
        for said in pair.run(_odd, name, dim):
            assert INPUTS[name][1] in said


def _odd(name: str, dim: Dim) -> list[str]:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
    graph = capture(model, torch.zeros(8, 3, 8, 8))
    slicings: dict[str, Slicing] = {name: (Dim.N,) if name in ("input", "output") else (dim,) for name in graph.index}
    net = SlicedModule(model, graph, slicings, flat_mesh())
    return _everyones(lambda: net(INPUTS[name][0]() if dist.get_rank() else torch.zeros(4, 3, 8, 8)))


def test_ranks_in_different_modes_all_raise(pair: World) -> None:
    for said in pair.run(_other_modes):
        assert "their modules are in different modes" in said


def _other_modes() -> list[str]:
    model = _model(norm=True)
    graph = _graph(model)
    net = SlicedModule(model, graph, dict.fromkeys(graph.index, (Dim.N,)), flat_mesh())
    net.get_submodule("1").train(dist.get_rank() == 0)
    return _everyones(lambda: net(_batch()[0]))


def test_a_whole_batch_that_is_another_on_a_rank_is_refused_on_all(pair: World) -> None:
    for said in pair.run(_other_volumes):
        assert "rank 0 passes (1, 3, 8, 8); rank 1 passes (2, 3, 8, 8)" in said


def _other_volumes() -> list[str]:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
    graph = capture(model, torch.zeros(1, 3, 8, 8))
    slicings: dict[str, Slicing] = {name: (None,) if name == "input" else (Dim.H,) for name in graph.index}
    net = SlicedModule(model, graph, slicings, flat_mesh())
    return _everyones(lambda: net(torch.zeros(1 + dist.get_rank(), 3, 8, 8)))


def test_one_rank_may_evaluate_a_data_parallel_network_alone(pair: World) -> None:
    assert pair.run_each(_alone) == [(5, 4), (0,)]


def _alone() -> tuple[int, ...]:
    model = _model(norm=True)
    graph = _graph(model)
    net = SlicedModule(model, graph, dict.fromkeys(graph.index, (Dim.N,)), flat_mesh()).eval()
    with torch.no_grad():
        return tuple(net(torch.zeros(5, 3, 8, 8, dtype=torch.float64)).shape) if dist.get_rank() == 0 else (0,)


def _everyones(act: object) -> list[str]:
    said = [""] * dist.get_world_size()
    try:
        act()  # type: ignore[operator]
        mine = "accepted"
    except PlanError as error:
        mine = str(error)
    dist.all_gather_object(said, mine)
    return said
