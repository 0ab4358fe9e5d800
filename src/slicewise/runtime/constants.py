"""Numbers of the host that kernels need: copied to the device once, because every copy makes the host wait for it."""

import torch
from torch import Tensor


class Constant:
    """`constant.like(x)`: the numbers in the dtype and on the device of `x`."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers
        self._copies: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def like(self, x: Tensor) -> Tensor:
        key = x.dtype, x.device
        if key not in self._copies:
            self._copies[key] = self._numbers.to(x)
        return self._copies[key]
