"""Losses inside a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing
from slicewise.runtime.kernels.calls import Context, Kernel, bound, caller, operator_name, plain

_SUM = 2  # as ATen numbers reductions


def loss(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The sum over this rank's part; of a mean, the count of what was summed beside it."""
    if not layer.options.get("counts"):
        return plain(layer, slicing, context)
    call, values = caller(layer), bound(layer, slicing, context)
    classes = operator_name(layer).startswith(("cross_entropy", "nll"))

    def kernel(inputs: Sequence[Tensor]) -> Tensor:
        given = {**values(inputs), "reduction": _SUM}
        total = call(given)
        count = (
            _counted(given["self"], given["target"], given) if classes else total.new_full((), given["self"].numel())
        )
        return torch.stack([total, count.to(total)])

    return kernel


def _counted(scores: Tensor, target: Tensor, given: Mapping[str, Any]) -> Tensor:
    """What the mean divides by: targets that are not ignored, each by the weight of its class."""
    if target.is_floating_point():  # probabilities
        return scores.new_full((), scores.numel() // scores.shape[1])
    known = torch.ne(target, given["ignore_index"])
    if given["weight"] is None:
        return known.sum()
    # multiplied, not picked: how many there are, only the device knows
    weight: Tensor = given["weight"]
    return (weight[target.clamp(0, len(weight) - 1)] * known).sum()
