"""The model's own modules, under its own names, around other tensors."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from types import MethodType
from typing import Any

from torch import Tensor, nn


def duplicate(model: nn.Module) -> nn.Module:
    """The model with tensors of its own."""
    tensors: dict[int, Tensor] = {
        id(own): nn.Parameter(own.detach().clone(), requires_grad=own.requires_grad) for own in model.parameters()
    }
    return skeleton(model, tensors | {id(buffer): buffer.clone() for buffer in model.buffers()})


def skeleton(model: nn.Module, tensors: Mapping[int, Tensor]) -> nn.Module:
    """A copy of the tree of modules that holds `tensors[id(own)]` in place of each own parameter and buffer.

    Whatever else modules have is shared: it may be anything, and much cannot be copied.
    """
    copies: dict[int, nn.Module] = {}

    def copied(module: nn.Module) -> nn.Module:
        if id(module) not in copies:
            copies[id(module)] = new = object.__new__(type(module))
            new.__dict__ = {name: mapped(value) for name, value in vars(module).items()}
        return copies[id(module)]

    def mapped(value: Any) -> Any:
        if isinstance(value, nn.Module):
            return copied(value)
        if isinstance(value, Tensor):
            return tensors.get(id(value), value)
        if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
            return MethodType(value.__func__, copied(value.__self__))
        if isinstance(value, partial):
            return partial(mapped(value.func), *mapped(value.args), **mapped(value.keywords))
        if type(value) in (dict, OrderedDict):
            return type(value)((name, mapped(item)) for name, item in value.items())
        if type(value) in (list, tuple, set):
            return type(value)(mapped(item) for item in value)
        return value

    return copied(model)
