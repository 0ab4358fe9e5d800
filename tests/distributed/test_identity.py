"""The model that is passed is what runs, the same on every rank; or every rank says what is another."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import slicewise as sw
from slicewise.errors import PlanError
from slicewise.graph.fingerprint import fingerprint
from slicewise.runtime.parallel import DtypeWarning, parallelize
from tests.builders import machine
from tests.distributed.comparing import my_share, whole
from tests.distributed.world import World


class _Net(nn.Module):
    def __init__(self, norm: Callable[[], nn.Module] = lambda: nn.BatchNorm2d(8)) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=2, dilation=2)
        self.norm = norm()
        self.act: nn.Module = nn.ReLU()
        self.pool: nn.Module = nn.MaxPool2d(2)
        self.slope = nn.LeakyReLU(0.1)
        self.dropout = nn.Dropout(0.0)
        self.head = nn.Linear(8 * 4 * 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.slope(self.pool(self.act(self.norm(self.conv(x)))))
        scores: Tensor = self.head(self.dropout(y.flatten(1)))
        return scores


class _Twice(_Net):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class _Added(_Net):
    """The same layers, joined in another way."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.slope(self.act(self.pool(self.norm(self.conv(x)))))
        scores: Tensor = self.head(self.dropout(y.flatten(1)))
        return scores


def _with(**parts: nn.Module) -> nn.Module:
    model = _Net()
    for name, part in parts.items():
        setattr(model, name, part)
    return model


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "tanh": (lambda: _with(act=nn.Tanh()), "act: the plan's network has the operator aten.relu.default"),
    "average": (lambda: _with(pool=nn.AvgPool2d(2)), "pool: the plan's network has the operator aten.max_pool2d"),
    "dilation": (lambda: _with(conv=nn.Conv2d(3, 8, 3, padding=1)), "conv: the plan's network has along H"),
    "twice": (_Twice, "output: the plan's network has a layer called output, this model mul"),
    "other order": (_Added, "act: the plan's network has a layer called act, this model pool"),
    "ceiling": (lambda: _with(pool=nn.MaxPool2d(2, ceil_mode=True)), "pool: the plan's network has ceil_mode False"),
    "wider": (lambda: _with(head=nn.Linear(128, 5)), "head: the plan's network has weights of shape"),
}
FOLLOWED: dict[str, Callable[[], nn.Module]] = {
    "the same": _Net,
    "epsilon": lambda: _Net(lambda: nn.BatchNorm2d(8, eps=0.5)),
    "momentum": lambda: _Net(lambda: nn.BatchNorm2d(8, momentum=0.9)),
    "slope": lambda: _with(slope=nn.LeakyReLU(0.7)),
    "frozen norm": lambda: _Net(lambda: nn.BatchNorm2d(8).eval()),
    "in eval mode": lambda: _Net().eval(),
}


def _made(make: Callable[[], nn.Module] = _Net) -> nn.Module:
    torch.manual_seed(0)
    return make()


@cache
def _plan(strategy: str = "layerwise", batch: int = 8) -> sw.Plan:
    graph = sw.capture(_made(), torch.zeros(2, 3, 8, 8))
    return sw.plan(graph, machine(2), batch=batch, fix=["conv=H"] if strategy == "layerwise" else ["*=N"])


def _x() -> Tensor:
    return torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def _off(net: nn.Module, model: nn.Module) -> float:
    """Outputs in training and in eval mode, and running statistics: the largest difference."""
    worst = 0.0
    for mode in (None, True, False):
        for each in (net, model):
            each.train(mode) if mode is not None else each
        worst = max(worst, float((net(my_share(_x())) - my_share(model(_x()))).detach().abs().max()))
    return worst


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_with_other_layers_is_refused_by_layer(pair: World, name: str) -> None:
    assert REFUSED[name][1] in pair.run(_refusal, name)


def _refusal(name: str) -> str:
    return _error(lambda: parallelize(REFUSED[name][0](), _plan()))


def _error(act: Callable[[], Any]) -> str:
    """On every rank the same."""
    said: list[str] = [""] * dist.get_world_size()
    try:
        act()
        mine = "accepted"
    except PlanError as error:
        mine = str(error)
    dist.all_gather_object(said, mine)
    assert all(text != "accepted" for text in said) or len(set(said)) == 1, said
    return said[0]


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_model_with_other_constants_or_modes_runs_as_it_is(pair: World, name: str) -> None:
    assert pair.run(_followed, name) < 1e-5


def _followed(name: str) -> float:
    model = _made(FOLLOWED[name])
    return _off(parallelize(copy.deepcopy(model), _plan()), model)


def test_dropout_is_the_models_own(pair: World) -> None:
    assert pair.run(_dropped)


def _dropped() -> bool:
    head = nn.Linear(128, 4)
    net = parallelize(_with(dropout=nn.Dropout(1.0), head=head), _plan())
    return bool((net(my_share(_x())) == head.bias).all())  # nothing else is left


def test_code_that_changed_since_the_plan_was_made_is_seen(pair: World) -> None:
    assert "act: the plan's network has the operator aten.relu.default, this model aten.tanh" in pair.run(
        _patched, True
    )
    assert "the plan's network has a layer called output, this model mul" in pair.run(_patched, False)


def _patched(part: bool) -> str:
    plan, model = _plan(), _made()
    inner = model.forward
    if part:
        model.act.forward = torch.tanh  # type: ignore[union-attr]
    else:
        model.forward = lambda x: inner(x) * 2
    return _error(lambda: parallelize(model, plan))


class _Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (F.max_pool2d, F.adaptive_max_pool2d),  # of one function in torch, which remembers which it is
        (torch.enable_grad()(F.relu), F.relu),
        ({"factor": 1.0}.get, {"factor": 2.0}.get),
        (torch.tensor(1.0).mul, torch.tensor(2.0).mul),
    ],
)
def test_what_functions_remember_is_part_of_the_fingerprint(one: Any, other: Any) -> None:
    mine, theirs = (fingerprint(_Calls(function), [((4,), torch.float32)]) for function in (one, other))
    assert mine is None or mine != theirs


def test_a_plan_from_a_file_needs_nothing_but_the_model(pair: World, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    _plan().save(path)
    assert pair.run(_from_file, str(path)) < 1e-5


def _from_file(path: str) -> float:
    model = _made()
    return _off(parallelize(copy.deepcopy(model), path), model)


def test_what_is_no_plan_is_refused_by_its_type(pair: World) -> None:
    assert pair.run(_no_plan) == "the plan must be a Plan, or the path of a plan's file (got a dict)"


def _no_plan() -> str:
    return _error(lambda: parallelize(_made(), {"layers": []}))  # type: ignore[arg-type]


def test_a_plan_of_the_first_version_runs_the_model_that_is_passed(pair: World) -> None:
    off, refused = pair.run(_first_version)
    assert off < 1e-5
    assert "the plan is not for this network" in refused


def _first_version() -> tuple[float, str]:
    plan = replace(_plan(), graph=None, machine=None, model="gone.py:make")
    model = _made()
    return _off(parallelize(copy.deepcopy(model), plan), model), _error(lambda: parallelize(_Twice(), plan))


def test_a_model_in_double_precision_under_a_plan_for_single_is_told_by_rank_0(pair: World) -> None:
    (said, off), (elsewhere, off_elsewhere) = pair.run_each(_double)
    assert "conv.weight is torch.float64, the plan is for fp32" in said[0]
    assert (len(said), elsewhere) == (1, [])
    assert max(off, off_elsewhere) < 1e-12


def _double() -> tuple[list[str], float]:
    model = _made().double()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", DtypeWarning)
        net = parallelize(copy.deepcopy(model), _plan())
    x = _x().double()
    return [str(one.message) for one in told], float((net(my_share(x)) - my_share(model(x))).detach().abs().max())


def test_a_model_in_half_precision_runs_as_it_is(pair: World) -> None:
    assert pair.run(_half) < 0.05


def _half() -> float:
    model = _made().bfloat16()
    net, x = parallelize(copy.deepcopy(model), _plan()), _x().bfloat16()
    got, wanted = net(my_share(x)), model(x)
    got.square().mean().backward()
    wanted.square().mean().backward()
    pairs: list[tuple[Tensor, Any]] = [(got.detach(), my_share(wanted.detach()))]
    theirs = dict(model.named_parameters())
    pairs += [(whole(parameter.grad), theirs[name].grad) for name, parameter in net.named_parameters()]
    held = dict(model.named_buffers())
    pairs += [(whole(buffer), held[name]) for name, buffer in net.named_buffers()]
    assert all(mine.dtype == other.dtype for mine, other in pairs)
    return max(float((mine - other).abs().max()) for mine, other in pairs)


def test_ranks_with_different_plans_all_raise(pair: World) -> None:
    assert "layer conv is another on rank 1 than on rank 0" in pair.run(_different_plans)


def _different_plans() -> str:
    plan = _plan("layerwise" if dist.get_rank() else "data")
    return _error(lambda: parallelize(_made(), plan))


def test_ranks_with_different_models_all_raise(pair: World) -> None:
    assert "layer head is another on rank 1 than on rank 0" in pair.run(_different_models)


def _different_models() -> str:
    model = _with(dropout=nn.Dropout(0.5 * dist.get_rank()))
    return _error(lambda: parallelize(model, _plan()))


def test_a_rank_that_cannot_start_takes_the_others_along(pair: World) -> None:
    assert pair.run(_one_fails).startswith("rank 1: the plan is not for this model")


def _one_fails() -> str:
    model = _Twice() if dist.get_rank() else _Net()
    return _error(lambda: parallelize(model, _plan()))


def test_a_rank_that_cannot_read_its_plan_takes_the_others_along(pair: World) -> None:
    assert pair.run(_one_has_no_plan).startswith("rank 1: gone.json: no such plan")


def _one_has_no_plan() -> str:
    return _error(lambda: parallelize(_made(), "gone.json" if dist.get_rank() else _plan()))


def test_ranks_whose_weights_begin_otherwise_all_raise(pair: World) -> None:
    assert "the weights' device is another on rank 1 than on rank 0" in pair.run(_one_without_memory)
    assert "initialize is another on rank 1 than on rank 0" in pair.run(_one_initialized)


def _one_without_memory() -> str:
    return _error(lambda: parallelize(_made().to("meta" if dist.get_rank() else "cpu"), _plan()))


def _one_initialized() -> str:
    initialize = (lambda module: None) if dist.get_rank() else None
    return _error(lambda: parallelize(_made().to("meta"), _plan(), initialize=initialize))


def test_ranks_may_plan_for_themselves(pair: World) -> None:
    assert pair.run(_planned_apart) < 1e-5


def _planned_apart() -> float:
    plan, model = _plan(), _made()
    plan = replace(plan, predicted=replace(plan.predicted, iteration_s=float(dist.get_rank())))
    return _off(parallelize(copy.deepcopy(model), plan), model)


class _Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Any]:
        y = self.body(x)
        return {"logits": self.head(y), "features": [y, (y * scale,)], "nothing": None}


def test_what_the_model_returns_comes_back_in_its_own_structure(pair: World) -> None:
    assert pair.run(_structured)


def _structured() -> bool:
    model = _Structured()
    plan = sw.plan(sw.capture(model, torch.zeros(4, 4)), machine(2), batch=4)
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    got, wanted = parallelize(copy.deepcopy(model), plan)(my_share(x)), model(my_share(x))
    assert list(got) == ["logits", "features", "nothing"]
    assert got["nothing"] is None
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-6)
    return True
