"""The values that weights and buffers start from: the model's own, or, on the meta device, made module by module."""

import copy
import zlib
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.errors import PlanError
from slicewise.runtime.devices import seeded

Initialize = Callable[[nn.Module], None]  # fills a module's own parameters and buffers, in place


def initial_values(
    model: nn.Module, device: torch.device, initialize: Initialize | None, seed: int
) -> Iterator[tuple[str, Tensor]]:
    """(name, whole tensor) of every parameter and buffer once, equal on all ranks.

    What exists is taken from rank 0, as DDP does it. What is on the meta device is made here by `initialize`, or by
    the module's own `reset_parameters`, from random numbers that depend on the module's name: the same on every rank,
    and never more than one module at a time.
    """
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        own = _own(module)
        made = _made(prefix, module, device, initialize, seed) if any(x.is_meta for x in own.values()) else None
        for name, tensor in own.items():
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            whole = (made or own)[name].detach().contiguous()
            if made is None:
                dist.broadcast(whole, src=0)
            yield f"{prefix}.{name}" if prefix else name, whole


def _own(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}


def _made(
    prefix: str, module: nn.Module, device: torch.device, initialize: Initialize | None, seed: int
) -> dict[str, Tensor]:
    reset = getattr(module, "reset_parameters", None)
    if initialize is None and reset is None:
        raise PlanError(
            f"{prefix or type(module).__name__} is on the meta device and {type(module).__name__} has no "
            "reset_parameters; pass parallelize(..., initialize=function of a module)"
        )
    real = copy.deepcopy(module).to_empty(device=device, recurse=False)
    with seeded(device, zlib.crc32(f"{seed} {prefix}".encode())):
        if initialize is not None:
            initialize(real)
        else:
            real.reset_parameters()  # type: ignore[operator]
    return _own(real)
