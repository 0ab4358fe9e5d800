"""Modules of a sliced network are the model's own: their modes, numbers and frozen weights are followed."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.comparison import difference
from slicewise.graph.dims import Dim
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import my_share, random_slicings, whole
from tests.distributed.world import World

BATCH = 8


class _Scaled(nn.Module):
    """What modules hold beside numbers: private ones, lists, functions."""

    def __init__(self) -> None:
        super().__init__()
        self._share, self.factors, self.function = 1.0, [1.0, 2.0], torch.tanh
        self.notes = (dist.get_rank(), (str, [1]))  # of no effect, and another on every rank

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.function(x) * self.factors[1] * self._share
        return scaled


class _Net(nn.Module):
    """In-place additions, a norm of its own, functions that look at the mode, and a branch that does."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2))
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        self.scaled, self.gain = _Scaled(), 1.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.scaled(self.stem(x)) * self.gain
        z = self.block(y)
        z += y
        if not self.training:
            z = z * 2
        z = self.dropout(z.mean((2, 3)))
        z = z + F.dropout(z, 0.0, training=self.training)
        scores: Tensor = self.head(z)
        return scores


def _pair(model: nn.Module, seed: int = 0) -> tuple[SlicedModule, nn.Module]:
    """Sliced in any way, and on one device."""
    mesh = Mesh.of({"local": dist.get_world_size()})
    graph = capture(model, torch.zeros(BATCH, 3, 8, 8, dtype=torch.float64))
    net = SlicedModule(copy.deepcopy(model), graph, random_slicings(graph, mesh, seed), mesh)
    return net, model


def _made() -> nn.Module:
    torch.manual_seed(0)
    return _Net().double()


def _x() -> Tensor:
    return torch.randn(BATCH, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _stepped(net: SlicedModule, model: nn.Module) -> float:
    """The largest difference of outputs, gradients and running statistics after a step."""
    net.zero_grad()
    model.zero_grad()
    got, wanted = net(my_share(_x())), model(_x())
    difference = float((got - my_share(wanted)).detach().abs().max())
    if wanted.requires_grad:
        got.square().mean().backward()
        wanted.square().mean().backward()
    theirs = dict(model.named_parameters())
    for name, parameter in net.named_parameters():
        assert (parameter.grad is None) == (theirs[name].grad is None), name
        wanted_gradient = theirs[name].grad
        if wanted_gradient is not None:
            difference = max(difference, float((whole(parameter.grad) - wanted_gradient).abs().max()))
    buffers = dict(model.named_buffers())
    for name, buffer in net.named_buffers():
        difference = max(difference, float((whole(buffer) - buffers[name]).abs().max()))
    return difference


def _same(change: Callable[[nn.Module], Any], before: bool) -> float:
    """After a change on both; with dropout that does not drop, so that one device can be compared with."""
    worst = 0.0
    for seed in range(3):
        model = _made()
        model.get_submodule("dropout").p = 0.0  # type: ignore[assignment]
        if before:
            change(model)
        net, model = _pair(model, seed)
        worst = max(worst, _stepped(net, model))
        if not before:
            change(net)
            change(model)
            worst = max(worst, _stepped(net, model))
            net.train()
            model.train()
        worst = max(worst, _stepped(net, model))
    return worst


def _rest(net: nn.Module) -> None:
    net.eval()


def _freeze_norms(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


def _freeze_one_norm(net: nn.Module) -> None:
    net.get_submodule("block")[1].eval()  # type: ignore[index]


def _other_numbers(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps, module.momentum = 0.5, 0.7
        if isinstance(module, nn.LeakyReLU):
            module.negative_slope = 0.9
        if isinstance(module, _Scaled):
            module._share = 0.3
    net.gain = 3.0  # type: ignore[assignment]


def _freeze_weights(net: nn.Module) -> None:
    net.get_submodule("stem").requires_grad_(False)


def _train_the_head_alone(net: nn.Module) -> None:
    net.requires_grad_(False)
    net.get_submodule("head").requires_grad_(True)


CHANGES = [_rest, _freeze_norms, _freeze_one_norm, _other_numbers, _freeze_weights, _train_the_head_alone]


@pytest.mark.parametrize("before", [pytest.param(True, marks=pytest.mark.long), False], ids=["before", "after"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_modes_numbers_and_frozen_weights_are_followed(
    pair: World, change: Callable[[nn.Module], Any], before: bool
) -> None:
    assert pair.run(_same, change, before) < 1e-12


def test_weights_that_were_frozen_train_again(pair: World) -> None:
    assert pair.run(_thawed) < 1e-12


def _thawed() -> float:
    model = _made()
    model.get_submodule("dropout").p = 0.0  # type: ignore[assignment]
    model.get_submodule("stem").requires_grad_(False)
    net, model = _pair(model)
    worst = _stepped(net, model)
    for changed in (net, model):
        changed.requires_grad_(True)
    return max(worst, _stepped(net, model))


def test_a_dropout_that_works_in_eval_mode_drops_differently_each_time(pair: World) -> None:
    kept, other = pair.run(_dropout_in_eval)
    assert 0.3 < kept < 0.7
    assert other


def _dropout_in_eval() -> tuple[float, bool]:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    graph = capture(model, torch.zeros(4, 4))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2})).eval()
    assert float((net(torch.ones(2, 4)) == 0).float().mean()) == 0.0
    net.get_submodule("1").train()
    one, two = net(torch.ones(2, 4)), net(torch.ones(2, 4))
    return float((one == 0).float().mean()), not torch.equal(one, two)


class _TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.one = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.two = self.one

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.two(self.one(self.stem(x)))
        return y


class _KeepsNorms(nn.Module):
    """Its norm rests in training too, as long as it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self._rests, self.changes = True, 0

    def train(self, mode: bool = True) -> "_KeepsNorms":
        super().train(mode)
        self.changes += 1
        if self._rests:
            self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x)).square()
        return y


class _Makes(nn.Module):
    """Tensors on the device of its input, on the CPU by default, and a constant that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.shares = nn.Conv2d(3, 4, 3, padding=1), torch.linspace(0.5, 1.0, 4, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x) * self.shares[:, None, None]
        column = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)
        made: Tensor = y * column + torch.zeros(x.shape[0], 1, x.shape[-2], 1, dtype=x.dtype)
        return made


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(24, 4, batch_first=True, num_layers=2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cells(x.transpose(1, 2).flatten(2))
        last: Tensor = self.head(y[:, -1])
        return last


@pytest.mark.parametrize(
    "kind", [_TwoNames, _KeepsNorms, _Makes, _Recurrent], ids=lambda kind: kind.__name__.strip("_")
)
def test_modes_follow_whatever_the_model_is_made_of(pair: World, kind: type[nn.Module]) -> None:
    assert pair.run(_in_turn, kind) < 1e-12


def _in_turn(kind: type[nn.Module]) -> float:
    torch.manual_seed(0)
    worst = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)  # recurrent layers are replicated
        net, model = _pair(kind().double())
        for mode in (False, True):
            net.train(mode)
            model.train(mode)
            worst = max(worst, _stepped(net, model))
    if kind is not _Recurrent:
        x = torch.cat((_x(), _x()), -1)
        worst = max(worst, float((net(my_share(x)) - my_share(model(x))).detach().abs().max()))
    return worst


def test_a_models_own_train_follows_its_numbers(pair: World) -> None:
    resting, training, changes = pair.run(_keeps_norms)
    assert (resting, training, changes) == (False, True, 2)


def _keeps_norms() -> tuple[bool, bool, Any]:
    net, _ = _pair(_KeepsNorms().double())
    norm = net.get_submodule("norm")
    net.train()
    resting = norm.training
    net._rests = False  # type: ignore[assignment]
    net.train()
    return resting, norm.training, net.changes


def test_a_model_at_rest_whose_train_keeps_norms_trains_them_when_asked(pair: World) -> None:
    assert pair.run(_asked_to_train) < 1e-12


def _asked_to_train() -> float:
    torch.manual_seed(0)
    net, model = _pair(_KeepsNorms().double().eval())
    for each in (net, model):
        each.train()
        each.get_submodule("norm").train()
    return _stepped(net, model)


class _Taken(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        setattr(self, name, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y


@pytest.mark.parametrize("name", ["local_samples", "rank", "_graph", "_passes"])
def test_attributes_with_names_of_a_sliced_networks_own_are_refused(pair: World, name: str) -> None:
    assert pair.run(_taken, name) == (
        f"a part of the model is called {name!r}, which a sliced network needs itself; rename it"
    )


def _taken(name: str) -> str:
    with pytest.raises(PlanError) as refused:
        _pair(_Taken(name).double())
    return str(refused.value)


def test_names_of_a_sliced_networks_own_are_all_known(pair: World) -> None:
    assert pair.run(_unknown_names) == []


def _unknown_names() -> list[str]:
    net, _ = _pair(_TwoNames().double())
    return sorted({*vars(net)} - {*vars(nn.Module())} - {*SlicedModule.__annotations__})


def test_copies_of_a_sliced_network_are_refused_with_what_to_do(pair: World) -> None:
    assert pair.run(_deep_copied) == ["parallelize a copy of the model, and load the state_dict() of this one"] * 2


def _deep_copied() -> list[str]:
    net, _ = _pair(_TwoNames().double())
    said = []
    for copies in (copy.deepcopy, torch.optim.swa_utils.AveragedModel):
        with pytest.raises(PlanError) as refused:
            copies(net)
        said.append(str(refused.value).partition("; ")[2])
    return said


class _Bags(nn.Module):
    """Its bags begin where `arange` says, on the device of what is read."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.bags, self.head = nn.EmbeddingBag(10, 6, device=device), nn.Linear(6, 4, device=device)

    def forward(self, words: Tensor) -> Tensor:
        place = torch.arange(len(words), device=words.device) / len(words)
        scores: Tensor = self.head(self.bags(words)) + place[:, None]
        return scores


def test_tensors_that_forward_makes_are_made_in_every_mode(pair: World) -> None:
    assert pair.run(_bags_in_every_mode) < 1e-6


def _bags_in_every_mode() -> float:
    torch.manual_seed(0)
    model = _Bags()
    words = torch.randint(10, (8, 5))
    warnings.simplefilter("ignore", OpaqueLayerWarning)
    graph = capture(model, words)
    net = SlicedModule(copy.deepcopy(model), graph, dict.fromkeys(graph.index, (None,)), Mesh.of({"local": 2}))
    worst = 0.0
    for mode in (True, False, True):
        net.train(mode)
        worst = max(worst, float((net(words).full_tensor() - model(words)).detach().abs().max()))
    return worst


@pytest.mark.filterwarnings("ignore:bags")
def test_a_model_on_another_device_is_the_plans_network() -> None:
    sample = torch.zeros(8, 5, dtype=torch.int64)
    there = capture(_Bags("meta"), sample.to("meta"))
    assert there["arange"].options["arguments"]["device"] == "meta"
    assert difference(capture(_Bags(), sample), there) is None


def test_modules_are_the_models_own_under_their_own_names(pair: World) -> None:
    assert pair.run(_named)


def _named() -> bool:
    net, model = _pair(_made())
    own = {name: type(module) for name, module in model.named_modules() if name}
    assert {name: type(module) for name, module in net.named_modules() if name} == own
    return list(net.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("replace", "head was replaced after parallelize"),
        ("weight", "a weight of head was replaced after parallelize"),
        ("call", "stem.0 is a part of a sliced network and cannot be called by itself"),
        ("hook", "stem.0 is a part of a sliced network, where hooks do not run"),
        ("buffer", "stem.1.running_mean was replaced after parallelize"),
        ("no buffer", "stem.1.running_var was replaced after parallelize"),
        ("function", "scaled.function was replaced after parallelize"),
        ("list", "scaled.factors was replaced after parallelize"),
        ("forward", "block.2.forward was replaced after parallelize"),
        ("class", "the class of block.2 was replaced after parallelize"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(pair: World, act: str, said: str) -> None:
    assert said in pair.run(_refused, act)


def _refused(act: str) -> str:
    net, _ = _pair(_made())
    try:
        if act == "replace":
            net.head = nn.Linear(8, 4).double()
        elif act == "weight":
            net.get_submodule("head").weight = nn.Parameter(torch.zeros(4, 8, dtype=torch.float64))
        elif act == "buffer":
            net.get_submodule("stem.1").running_mean = torch.zeros(8, dtype=torch.float64)
        elif act == "no buffer":
            net.get_submodule("stem.1").running_var = None  # type: ignore[assignment]
        elif act == "function":
            net.get_submodule("scaled").function = torch.relu  # type: ignore[assignment]
        elif act == "list":
            net.get_submodule("scaled").factors[1] = 7.0  # type: ignore[operator]
        elif act == "forward":
            net.get_submodule("block.2").forward = torch.relu
        elif act == "class":
            net.get_submodule("block.2").__class__ = nn.ReLU
        elif act == "call":
            net.get_submodule("stem")[0](_x())  # type: ignore[index]
        else:
            net.get_submodule("stem")[0].register_forward_hook(lambda *_: None)  # type: ignore[index]
        net(my_share(_x()))
    except PlanError as error:
        return str(error)
    return "accepted"
