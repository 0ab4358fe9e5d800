"""One device whose batch norms see one rank's samples at a time: what `--batchnorm local` must come to."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def by_chunk(model: nn.Module, ranks: int) -> nn.Module:
    """A copy of `model`, with DDP's statistics on one device; running ones are the first rank's."""
    made = copy.deepcopy(model)
    for module in made.modules():
        if isinstance(module, _BatchNorm):
            kind = type(module)
            module.__class__ = type(f"Chunked{kind.__name__}", (_Chunked, kind), {"ranks": ranks})
    return made


class _Chunked:
    ranks: int
    training: bool
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    def forward(self, x: Tensor) -> Tensor:
        norm: Any = super()
        if not self.training:
            whole: Tensor = norm.forward(x)
            return whole
        first, *others = x.chunk(self.ranks)
        untracked = [
            F.batch_norm(part, None, None, self.weight, self.bias, training=True, eps=self.eps) for part in others
        ]
        return torch.cat([norm.forward(first), *untracked])
