"""A weight as the user sees it: torch's DTensor, where what DTensor would ignore is followed or refused.

weight.data = value            DTensor keeps the old value: the new one is copied into it
weight.register_hook(...)      gradients are written, not accumulated by autograd: hooks would never run
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle

from slicewise.errors import PlanError

_INSTEAD = "change gradients between backward and the optimizer's step"


class Facade(DTensor):
    """A parameter; made by `facade_of`, since torch makes parameters of plain DTensors only."""

    __slots__ = ()

    @property
    def data(self) -> Tensor:
        shared: Tensor = torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]
        return shared

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, DTensor) or value.shape != self.shape:
            given = f"a {type(value).__name__} of shape {tuple(value.shape)}"
            raise PlanError(f"`.data` of a sliced weight takes a DTensor of shape {tuple(self.shape)} (got {given})")
        with torch.no_grad():
            self.copy_(value)

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        _refuse(f"the weight of shape {tuple(self.shape)}")

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        _refuse(f"the weight of shape {tuple(self.shape)}")

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        copied = facade_of(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied


def facade_of(value: Tensor, trained: bool) -> nn.Parameter:
    parameter = nn.Parameter(value, requires_grad=trained)
    parameter.__class__ = Facade  # type: ignore[assignment]
    return parameter


def refuse_hooks(model: nn.Module) -> None:
    """Of gradients, set before: nothing would call them."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            _refuse(name)
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise PlanError(
                f"{name or type(module).__name__}: backward hooks do not run in a sliced network; "
                "hook the network that parallelize returns, or its output"
            )


def _refuse(what: str) -> NoReturn:
    raise PlanError(f"{what}: hooks of weights do not run in a sliced network; {_INSTEAD}")
