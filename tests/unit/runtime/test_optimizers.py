import gc
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.optim import sgd
from torch.optim.optimizer import _global_optimizer_pre_hooks as hooks
from torch.testing._internal.distributed.fake_pg import FakeStore

from slicewise.errors import PlanError
from slicewise.runtime import optimizers


@pytest.fixture
def hooked() -> Iterator[int]:
    """How many hooks there were before."""
    gc.collect()  # networks of other tests
    yield len(hooks)
    gc.collect()


def _stepped(net: nn.Linear, name: str) -> torch.Tensor:
    """The weight after a step."""
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.1)
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return net.weight.detach()


def test_importing_the_runtime_hooks_no_optimizer(hooked: int) -> None:
    importlib.reload(optimizers)
    assert len(hooks) == hooked


def test_optimizers_are_looked_at_only_as_long_as_the_network_lives(hooked: int) -> None:
    net = nn.Linear(4, 4)
    optimizers.watch(net, net.parameters(), nn.Linear(4, 4))
    assert len(hooks) == hooked + 1
    del net
    gc.collect()
    assert len(hooks) == hooked


@pytest.mark.parametrize("name", ["Adafactor", "Rprop"])
def test_the_weights_of_other_networks_take_any_optimizer(hooked: int, name: str) -> None:
    torch.manual_seed(0)
    sliced, other = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizers.watch(sliced, sliced.parameters(), nn.Linear(4, 4))
    before = other.weight.detach().clone()
    assert not torch.equal(_stepped(other, name), before)
    with pytest.raises(PlanError, match=f"{name} does not take the sharded weights"):
        _stepped(sliced, name)
    assert len(hooks) == hooked + 1


@pytest.fixture
def alone() -> Iterator[DeviceMesh]:
    """A world of one rank, without a message."""
    dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def _local(tensor: torch.Tensor | None) -> torch.Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.to_local().detach().clone()


def _sliced(mesh: DeviceMesh, *placements: Placement, items: int = 8) -> list[nn.Parameter]:
    """A weight for each placement, with a gradient, that belongs to a sliced network."""
    made = []
    for number, placement in enumerate(placements):
        values = torch.linspace(0, 1, items) + number
        weight = nn.Parameter(DTensor.from_local(values, mesh, [placement]))
        weight.grad = DTensor.from_local(values.flip(0), mesh, [placement])
        made.append(weight)
    return made


CHOICES: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RMSprop": {"momentum": 0.5},
    "Adagrad": {},
}


@pytest.mark.parametrize("name", CHOICES)
def test_small_weights_are_stepped_together_with_the_same_numbers_and_settings(name: str, alone: DeviceMesh) -> None:
    net, weights = nn.Module(), _sliced(alone, *[Replicate()] * 5)
    plain = [nn.Parameter(_local(weight)) for weight in weights]
    for one, other in zip(plain, weights, strict=True):
        one.grad = _local(other.grad)
    optimizers.watch(net, weights, nn.Linear(1, 1))
    ours, theirs = (getattr(torch.optim, name)(held, lr=0.1, **CHOICES[name]) for held in (weights, plain))
    for _ in range(3):
        ours.step()
        theirs.step()
        assert ours.param_groups[0]["foreach"] is None
    for one, other in zip(plain, weights, strict=True):
        assert torch.allclose(_local(other), one, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("placement", "options", "together"),
    [
        (Replicate(), {}, True),
        (Shard(0), {}, False),  # parts differ between weights
        (Replicate(), {"foreach": False}, False),  # the user's own choice
        (Replicate(), {"lr": torch.tensor(0.1)}, False),  # foreach does not take it
    ],
)
def test_only_whole_weights_that_leave_the_choice_open_are_stepped_together(
    placement: Placement, options: dict[str, Any], together: bool, alone: DeviceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, weights = nn.Module(), _sliced(alone, placement, placement)
    optimizers.watch(net, weights, nn.Linear(1, 1))
    seen = []
    monkeypatch.setattr(sgd, "_multi_tensor_sgd", lambda *_, **__: seen.append("together"))
    monkeypatch.setattr(sgd, "_single_tensor_sgd", lambda *_, **__: seen.append("one by one"))
    torch.optim.SGD(weights, **{"lr": 0.1, **options}).step()
    assert seen == ["together" if together else "one by one"]


def test_gradients_that_are_yet_to_be_summed_are_taken_one_by_one(
    alone: DeviceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, weights = nn.Module(), _sliced(alone, Replicate(), Replicate())
    weights[1].grad = DTensor.from_local(_local(weights[1].grad), alone, [Partial()])
    optimizers.watch(net, weights, nn.Linear(1, 1))
    seen = []
    monkeypatch.setattr(sgd, "_single_tensor_sgd", lambda *_, **__: seen.append("one by one"))
    torch.optim.SGD(weights, lr=0.1).step()
    assert seen == ["one by one"]


def test_large_weights_are_stepped_one_by_one(alone: DeviceMesh) -> None:
    """All at once they would need a copy of themselves."""
    net, weights = nn.Module(), _sliced(alone, Replicate(), items=optimizers._SMALL_ITEMS + 1)
    optimizers.watch(net, weights, nn.Linear(1, 1))
    optimizer = torch.optim.SGD(weights, lr=0.1)
    optimizer.step()
    assert optimizers._small(optimizer) == []
