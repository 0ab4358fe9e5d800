import gc
import importlib
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks as hooks

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
