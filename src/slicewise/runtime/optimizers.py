"""Optimizers of a sliced network: those that would go wrong say so, and many small weights are stepped together.

Two of torch's optimizers do not take sharded weights, and some optimizers hold other weights. Each operation on a
DTensor costs microseconds of Python, so a step over a hundred small ones, one after the other, takes ten times what it
does over plain tensors. torch's `foreach` implementations call an operator once for all of them.
"""

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary, finalize

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from slicewise.errors import PlanError

# torch 2.13: Adafactor takes averages over rows and columns of each rank's part alone, without a word; Rprop writes
# through masks, which DTensors refuse.
_REFUSED = (torch.optim.Adafactor, torch.optim.Rprop)
_SMALL_ITEMS = 1 << 18  # of a weight, on average: beyond, calls cost little and a copy of all weights much

_Group = dict[str, Any]
_Sizes = tuple[int, ...]
# of each optimizer: the weights of its groups when it was looked at, and which groups are of small weights
_known: "WeakKeyDictionary[torch.optim.Optimizer, tuple[_Sizes, list[int]]]" = WeakKeyDictionary()
_changed: "WeakKeyDictionary[torch.optim.Optimizer, list[_Group]]" = WeakKeyDictionary()  # during a step


def watch(net: nn.Module, parameters: Iterable[nn.Parameter], model: nn.Module) -> None:
    """Any optimizer that steps these, or those of `model` that they stand for, is checked as long as `net` lives.

    torch has no hook for the optimizers of some weights alone, only one for all optimizers of the process.
    """
    for parameter in parameters:
        parameter._is_sliced = True  # type: ignore[attr-defined]
    for parameter in model.parameters():
        parameter._was_sliced = True  # type: ignore[attr-defined]
    for hook in (register_optimizer_step_pre_hook(_before), register_optimizer_step_post_hook(_after)):
        finalize(net, hook.remove).atexit = False


def _before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    _check(optimizer)
    for group in (optimizer.param_groups[number] for number in _small(optimizer)):
        if group["foreach"] is None and _takes_foreach(group):
            group["foreach"] = True
            _changed.setdefault(optimizer, []).append(group)


def _after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Its settings, and what a checkpoint keeps of them, are the user's own."""
    for group in _changed.pop(optimizer, ()):
        group["foreach"] = None


def _check(optimizer: torch.optim.Optimizer) -> None:
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


def _small(optimizer: torch.optim.Optimizer) -> list[int]:
    """Groups that leave the choice to torch and have nothing but many small weights, whole on every rank."""
    sizes = tuple(len(group["params"]) for group in optimizer.param_groups)
    found = _known.get(optimizer)
    if found is None or found[0] != sizes:
        small = [number for number, group in enumerate(optimizer.param_groups) if _is_small(group)]
        found = _known[optimizer] = sizes, small
    return found[1]


def _takes_foreach(group: _Group) -> bool:
    """Not with a learning rate that is a tensor, nor with gradients that are yet to be summed."""
    return not any(isinstance(value, torch.Tensor) for value in group.values()) and all(
        weight.grad is None or weight.grad.placements == weight.placements for weight in group["params"]
    )


def _is_small(group: _Group) -> bool:
    weights = group["params"]
    if group.get("foreach", False) is not None or group.get("fused") or group.get("differentiable") or not weights:
        return False
    if not all(getattr(weight, "_is_sliced", False) for weight in weights):
        return False
    whole = all(placement.is_replicate() for weight in weights for placement in weight.placements)
    return whole and sum(weight.numel() for weight in weights) <= _SMALL_ITEMS * len(weights)
