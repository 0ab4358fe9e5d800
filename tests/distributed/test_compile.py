"""torch.compile before and after `parallelize`: both run as they would without, and one rank says so once."""

import warnings
from typing import Any

import torch
import torch.distributed as dist

import slicewise as sw
from slicewise.errors import PlanError
from slicewise.runtime import compiling
from slicewise.runtime.compiling import CompileWarning
from tests.builders import machine
from tests.distributed.run_models import residual
from tests.distributed.world import World


def test_a_compiled_model_and_a_compiled_network_run_and_rank_0_says_so_once(pair: World) -> None:
    told, elsewhere = pair.run_each(_compiled)
    assert [(text.partition(":")[0], file) for text, file in told] == [  # at the lines of this file
        ("the model was compiled before parallelize", __file__),
        ("torch.compile of a sliced network changes nothing", __file__),
    ]
    assert elsewhere == []


def _compiled() -> list[tuple[str, str]]:
    compiled: Any = torch.compile
    model, sample = residual()
    plan = sw.plan(model, machine(2), sample=sample, batch=4)
    x = torch.randn(2, 4, 8, 8)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        plain = sw.parallelize(model, plan)
        before = sw.parallelize(compiled(model), plan)
        after = compiled(sw.parallelize(compiled(model), plan), backend="eager")
        outputs = [net(x) for net in (plain, before, after, after)]
        outputs[-1].square().mean().backward()
    assert all(torch.equal(output, outputs[0]) for output in outputs)
    assert list(before.state_dict()) == list(model.state_dict())
    assert all(parameter.grad is not None for parameter in after.parameters())
    return [(str(one.message), one.filename) for one in raised if one.category is CompileWarning]


def test_a_model_that_was_compiled_in_place_runs_and_rank_0_says_so(pair: World) -> None:
    (text,), elsewhere = pair.run_each(_compiled_in_place)
    assert text.startswith("the model was compiled before parallelize")
    assert elsewhere == []


def _compiled_in_place() -> list[str]:
    model, sample = residual()
    plan = sw.plan(model, machine(2), sample=sample, batch=4)
    x = torch.randn(2, 4, 8, 8)
    plain = sw.parallelize(model, plan)(x)
    model.compile()
    compiling._told.clear()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        assert torch.equal(sw.parallelize(model, plan)(x), plain)
    return [str(one.message) for one in raised if one.category is CompileWarning]


def test_a_part_that_was_compiled_by_itself_is_refused_by_name(pair: World) -> None:
    assert pair.run(_compiled_part) == (
        "first was compiled by itself; pass the model to parallelize without torch.compile"
    )


def _compiled_part() -> str:
    model: Any
    model, sample = residual()
    plan = sw.plan(model, machine(dist.get_world_size()), sample=sample, batch=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.first = torch.compile(model.first)
    try:
        sw.parallelize(model, plan)
    except PlanError as error:
        return str(error)
    return ""
