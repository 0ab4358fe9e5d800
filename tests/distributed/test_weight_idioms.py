"""What scripts do to weights and gradients by hand: it has one device's effect, or is refused."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

import slicewise as sw
from slicewise.cluster.cluster import load_cluster
from slicewise.errors import PlanError
from tests.distributed.world import World

BATCH, RANKS = 4, 2
STRATEGIES = ("data", "filter")


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10)
    ).double()


def _samples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(BATCH, 3, 8, 8, generator=generator, dtype=torch.float64)
    return x, torch.randint(10, (BATCH,), generator=generator)


def _sliced(model: nn.Module, strategy: str) -> nn.Module:
    cluster = load_cluster("p100-4x4").with_devices(RANKS)
    plan = sw.plan(model, cluster, sample=_samples()[0], batch=BATCH, strategy=strategy)
    return sw.parallelize(model, plan)


def _halve_data(net: nn.Module) -> None:
    for weight in net.parameters():
        weight.data = weight.data * 0.5


def _descend_by_data(net: nn.Module) -> None:
    for weight in net.parameters():
        assert weight.grad is not None
        weight.data -= 0.1 * weight.grad.data


def _descend(net: nn.Module) -> None:
    with torch.no_grad():
        for weight in net.parameters():
            assert weight.grad is not None
            weight.sub_(0.1 * weight.grad)


def _clamp_gradients(net: nn.Module) -> None:
    for weight in net.parameters():
        assert weight.grad is not None
        weight.grad.data.clamp_(-1e-3, 1e-3)
    torch.optim.SGD(net.parameters(), lr=0.1).step()


IDIOMS: dict[str, Callable[[nn.Module], None]] = {
    "data replaced": _halve_data,
    "data subtracted": _descend_by_data,
    "in place": _descend,
    "gradients clamped": _clamp_gradients,
}


def _difference(name: str, strategy: str) -> float:
    """Of the outputs after a step by hand."""
    x, labels = _samples()
    alone, net = _network(), _sliced(_network(), strategy)
    mine = slice(torch.distributed.get_rank() * BATCH // RANKS, (torch.distributed.get_rank() + 1) * BATCH // RANKS)
    for network, images, targets in ((alone, x, labels), (net, x[mine], labels[mine])):
        F.cross_entropy(network(images), targets).backward()
        IDIOMS[name](network)
    with torch.no_grad():
        return float((net(x[mine]) - alone(x)[mine]).abs().max())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", IDIOMS)
def test_weights_changed_by_hand_are_those_that_run(pair: World, name: str, strategy: str) -> None:
    assert pair.run(_difference, name, strategy) < 1e-12


def _whole(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _penalised(strategy: str, apart: bool) -> float:
    """Of the gradients of a loss with a penalty on weights: in one sum, or each with a backward pass."""
    x, labels = _samples()
    alone, net = _network(), _sliced(_network(), strategy)
    mine = slice(torch.distributed.get_rank() * BATCH // RANKS, (torch.distributed.get_rank() + 1) * BATCH // RANKS)
    for network, images, targets in ((alone, x, labels), (net, x[mine], labels[mine])):
        penalty = 0.1 * sum((weight.pow(2).sum() for weight in network.parameters()), torch.zeros(()))
        loss = F.cross_entropy(network(images), targets)
        if apart:
            penalty.backward()
            loss.backward()
        else:
            (loss + _whole(penalty)).backward()
    pairs = zip(net.parameters(), alone.parameters(), strict=True)
    return max(float((_whole(_gradient(one)) - _gradient(other)).abs().max()) for one, other in pairs)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("apart", [True, False])
def test_penalties_on_weights_have_one_devices_gradients(pair: World, strategy: str, apart: bool) -> None:
    assert pair.run(_penalised, strategy, apart) < 1e-12


READINGS: dict[str, Callable[[nn.Module], float]] = {
    "norm of gradients": lambda net: sum(_gradient(weight).norm().item() ** 2 for weight in net.parameters()),
    "norm of norms": lambda net: torch.stack([_gradient(weight).norm() for weight in net.parameters()]).norm().item(),
    "largest gradient": lambda net: max(float(_gradient(weight).abs().max()) for weight in net.parameters()),
    "size of weights": lambda net: sum(float(weight.detach().pow(2).sum()) for weight in net.parameters()),
    "positive weights": lambda net: sum(int((weight.detach() > 0).sum()) for weight in net.parameters()),
    "finite": lambda net: sum(bool(torch.isfinite(_gradient(weight)).all()) for weight in net.parameters()),
}


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def _reading_differs(name: str, strategy: str) -> float:
    x, labels = _samples()
    alone, net = _network(), _sliced(_network(), strategy)
    mine = slice(torch.distributed.get_rank() * BATCH // RANKS, (torch.distributed.get_rank() + 1) * BATCH // RANKS)
    F.cross_entropy(alone(x), labels).backward()
    F.cross_entropy(net(x[mine]), labels[mine]).backward()
    return abs(READINGS[name](net) - READINGS[name](alone))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", READINGS)
def test_numbers_read_from_weights_and_gradients_are_those_of_the_whole(pair: World, name: str, strategy: str) -> None:
    assert pair.run(_reading_differs, name, strategy) < 1e-12


def _copied(strategy: str) -> float:
    """Weights of a copy are the copy's own."""
    net = _sliced(_network(), strategy)
    before = [weight.full_tensor() for weight in net.state_dict().values()]
    copied = [copy.deepcopy(weight) for weight in net.parameters()]
    with torch.no_grad():
        for weight in copied:
            weight.zero_()
    return max(float((a - b.full_tensor()).abs().max()) for a, b in zip(before, net.state_dict().values(), strict=True))


def test_copies_of_weights_stand_alone(pair: World) -> None:
    assert pair.run(_copied, "filter") == 0


def _hooked(when: str, kind: str) -> str:
    model = _network()
    if when == "before":
        getattr(next(model.parameters()), kind)(lambda gradient: None)
    try:
        net = _sliced(model, "data")
        getattr(next(net.parameters()), kind)(lambda gradient: None)
    except PlanError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize(("when", "named"), [("before", "0.weight"), ("after", "the weight of shape (8, 3, 3, 3)")])
def test_hooks_of_weights_are_refused(pair: World, when: str, named: str, kind: str) -> None:
    told = pair.run(_hooked, when, kind)
    assert told.startswith(f"{named}: hooks of weights do not run in a sliced network;")


def _given_a_plain_tensor() -> str:
    weight = next(_sliced(_network(), "filter").parameters())
    try:
        weight.data = torch.zeros(8, 3, 3, 3, dtype=torch.float64)
    except PlanError as error:
        return str(error)
    return "taken"


def test_plain_tensors_as_data_are_refused(pair: World) -> None:
    assert "takes a DTensor of shape (8, 3, 3, 3) (got a Tensor of shape (8, 3, 3, 3))" in pair.run(
        _given_a_plain_tensor
    )
