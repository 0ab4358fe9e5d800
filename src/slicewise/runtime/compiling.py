"""torch.compile, before and after `parallelize`: both run, uncompiled, and rank 0 says so once.

What would be compiled is the whole network; what runs is one operator per layer with messages between.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._compile import _disable_dynamo

from slicewise.errors import PlanError


class CompileWarning(UserWarning):
    """A network that was compiled: a sliced one runs without it."""


_BEFORE = "the model was compiled before parallelize: its layers run sliced, uncompiled, with the same numbers"
_INSIDE = tuple(f"{Path(file).parent}/" for file in (torch.__file__, Path(__file__).parent))
_told: set[str] = set()


def uncompiled(model: nn.Module) -> nn.Module:
    """The model itself, of one that `torch.compile` returned; a part that was compiled alone is refused by name.

    `model.compile()` leaves the model what it is, and is told alone.
    """
    found = getattr(model, "_orig_mod", None)
    if isinstance(found, nn.Module):
        _tell(_BEFORE)
        model = found
    elif any(part._compiled_call_impl is not None for part in model.modules()):
        _tell(_BEFORE)
    for name, part in model.named_modules():
        if isinstance(getattr(part, "_orig_mod", None), nn.Module):
            raise PlanError(f"{name} was compiled by itself; pass the model to parallelize without torch.compile")
    return model


@_disable_dynamo
def run_uncompiled(work: Callable[..., Any], inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What `torch.compile(net)` comes to."""
    _tell("torch.compile of a sliced network changes nothing: it runs uncompiled; leave torch.compile out")
    return work(*inputs, **named)


def _tell(what: str) -> None:
    if what not in _told and dist.get_rank() == 0:
        warnings.warn(what, CompileWarning, stacklevel=_users_level())
    _told.add(what)


def _users_level() -> int:
    """For a warning of the caller: how far up the line is that is neither ours nor torch's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return level
