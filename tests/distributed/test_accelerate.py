"""Accelerate's own `prepare`, `accumulate`, `save_state` and `load_state` with a sliced network."""

import os
import tempfile
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import slicewise as sw
from slicewise.errors import PlanError
from tests.builders import machine
from tests.distributed.comparing import whole
from tests.distributed.conftest import world_of
from tests.distributed.run_models import classified, same_residual
from tests.distributed.world import World

BATCH, SAMPLES = 4, 16
pytestmark = pytest.mark.long  # importing Accelerate takes longer than most tests


def _accelerator(**options: Any) -> Any:
    os.environ.update(LOCAL_RANK=str(dist.get_rank()), ACCELERATE_USE_CPU="true")
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from accelerate.state import AcceleratorState, PartialState

        from slicewise.accelerate import Accelerator

        PartialState._reset_state()
        AcceleratorState._reset_state(True)
        return Accelerator(cpu=True, **options)


def _net(dtype: torch.dtype = torch.float64) -> Any:
    plan = sw.plan(
        same_residual(),
        machine(dist.get_world_size()),
        sample=torch.zeros(2, 4, 8, 8, dtype=torch.float64),
        batch=BATCH,
    )
    return sw.parallelize(same_residual().to(dtype), plan)


def _prepared(accelerator: Any) -> tuple[Any, Any, Any, Any]:
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loader = DataLoader(classified(SAMPLES), BATCH // dist.get_world_size())
    return tuple(accelerator.prepare(net, optimizer, loader, scheduler))


def _epoch(accelerator: Any, net: Any, optimizer: Any, loader: Any, scheduler: Any) -> None:
    for x, t in loader:
        with accelerator.accumulate(net):
            accelerator.backward(F.cross_entropy(net(x), t))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.scheduler.step()


def _truth(epochs: int) -> nn.Module:
    """The same training on one device."""
    model = same_residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for number, (x, t) in enumerate(DataLoader(classified(SAMPLES), BATCH)):
            (F.cross_entropy(model(x), t) / 2).backward()
            if number % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] *= 0.5
    return model


def _off(net: nn.Module, model: nn.Module) -> float:
    ours, theirs = net.state_dict(), model.state_dict()
    return max(float((whole(ours[name]) - theirs[name]).abs().max()) for name in theirs)


def test_accelerate_trains_saves_and_goes_on_on_another_number_of_ranks(pair: World, worlds: dict[int, World]) -> None:
    folder = tempfile.mkdtemp()
    assert max(pair.run(_trained, folder)) < 1e-9
    assert world_of(worlds, 1).run(_resumed, folder) < 1e-9


def _trained(folder: str) -> tuple[float, float]:
    accelerator = _accelerator(gradient_accumulation_steps=2)
    parts = _prepared(accelerator)
    assert parts[0] is accelerator.unwrap_model(parts[0])
    _epoch(accelerator, *parts)
    first = _off(parts[0], _truth(1))
    accelerator.save_state(folder)
    _epoch(accelerator, *parts)  # goes astray
    accelerator.load_state(folder)
    _epoch(accelerator, *parts)
    return first, _off(parts[0], _truth(2))


def _resumed(folder: str) -> float:
    accelerator = _accelerator(gradient_accumulation_steps=2)
    parts = _prepared(accelerator)
    accelerator.load_state(folder)
    _epoch(accelerator, *parts)
    return _off(parts[0], _truth(2))


def test_mixed_precision_is_accelerates_own(pair: World) -> None:
    inside, outside = pair.run(_mixed)
    assert (inside, outside) == (torch.bfloat16, torch.float32)


def _mixed() -> tuple[torch.dtype, torch.dtype]:
    accelerator = _accelerator(mixed_precision="bf16")
    net = accelerator.prepare(_net(torch.float32))
    output = net(torch.randn(2, 4, 8, 8))
    output.sum().backward()
    with accelerator.autocast():
        inside = type(net).forward(net, torch.randn(2, 4, 8, 8)).dtype
    return inside, output.dtype


def test_accelerates_own_accelerator_says_what_to_import(pair: World) -> None:
    assert "from slicewise.accelerate import Accelerator" in pair.run(_stock)


def _stock() -> str:
    _accelerator()
    from accelerate import Accelerator

    try:
        Accelerator(cpu=True).prepare(_net())
    except PlanError as error:
        return str(error)
    return ""
