"""Optimizers that would go wrong say so: two of torch's do not take sharded weights, and some hold other weights."""

from collections.abc import Iterable
from typing import Any
from weakref import finalize

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from slicewise.errors import PlanError

# torch 2.13: Adafactor takes averages over rows and columns of each rank's part alone, without a word; Rprop writes
# through masks, which DTensors refuse.
_REFUSED = (torch.optim.Adafactor, torch.optim.Rprop)


def watch(net: nn.Module, parameters: Iterable[nn.Parameter], model: nn.Module) -> None:
    """Any optimizer that steps these, or those of `model` that they stand for, is checked as long as `net` lives.

    torch has no hook for the optimizers of some weights alone, only one for all optimizers of the process.
    """
    for parameter in parameters:
        parameter._is_sliced = True  # type: ignore[attr-defined]
    for parameter in model.parameters():
        parameter._was_sliced = True  # type: ignore[attr-defined]
    hook = register_optimizer_step_pre_hook(_check)
    finalize(net, hook.remove).atexit = False


def _check(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if isinstance(optimizer, _REFUSED) and any(getattr(parameter, "_is_sliced", False) for parameter in parameters):
        raise PlanError(
            f"{type(optimizer).__name__} does not take the sharded weights of a sliced network; "
            "torch's other optimizers do, AdamW, SGD and Muon among them"
        )
    left_behind = [parameter for parameter in parameters if getattr(parameter, "_was_sliced", False)]
    # the model that was passed may be trained beside the network that was made of it; then its weights have gradients
    if left_behind and all(parameter.grad is None for parameter in left_behind):
        raise PlanError(
            f"this {type(optimizer).__name__} was made from the model before parallelize, and would train nothing; "
            "make it from net.parameters() after parallelize"
        )
