"""Numbers read from weights and gradients by hand are those of the whole tensor.

`weight.grad.norm().item()` of a DTensor in parts is, in torch 2.13, the norm of this rank's part: `norm` leaves the sum
over ranks for later, and `item` takes what is there. Here `item`, `float`, `int` and `bool` sum up first. It is a
collective: every rank reads the number, or none.
"""

from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate

_READ = torch.ops.aten._local_scalar_dense.default


def read_whole_scalars() -> None:
    """From now on, for every DTensor of the process: there is no number of which a share is meant."""
    DTensor._op_dispatcher._custom_op_handlers[_READ] = _read


def _read(op_call: Any, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
    tensor: DTensor = args[0]
    if any(placement.is_partial() for placement in tensor.placements):
        tensor = tensor.redistribute(placements=[Replicate() if p.is_partial() else p for p in tensor.placements])
    return op_call(tensor.to_local(), **kwargs)
