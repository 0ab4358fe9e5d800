"""Which of torch's optimizers take sharded weights: all but two, and those say so instead of going wrong."""

from typing import Any
from weakref import finalize

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from slicewise.errors import PlanError

# torch 2.13: Adafactor takes averages over rows and columns of each rank's part alone, without a word; Rprop writes
# through masks, which DTensors refuse.
_REFUSED = (torch.optim.Adafactor, torch.optim.Rprop)


def watch(net: nn.Module, parameters: list[nn.Parameter]) -> None:
    """Any optimizer that steps these is checked, as long as the network lives.

    torch has no hook for the optimizers of some weights alone, only one for all optimizers of the process.
    """
    for parameter in parameters:
        parameter._is_sliced = True  # type: ignore[attr-defined]
    hook = register_optimizer_step_pre_hook(_check)
    finalize(net, hook.remove).atexit = False


def _check(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if isinstance(optimizer, _REFUSED) and any(
        getattr(parameter, "_is_sliced", False) for group in optimizer.param_groups for parameter in group["params"]
    ):
        raise PlanError(
            f"{type(optimizer).__name__} does not take the sharded weights of a sliced network; "
            "torch's other optimizers do, AdamW, SGD and Muon among them"
        )
