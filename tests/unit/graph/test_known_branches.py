"""Branches on infinities and NaN."""

import pytest
import torch
from torch import Tensor, nn

from slicewise.errors import GraphError
from slicewise.graph.capture import capture


class Clamped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.exp()
        if torch.isinf(y).any() | torch.isnan(y).any() or not torch.isfinite(y).all():
            y = torch.clamp(y, -1.0, 1.0)
        return y


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() if (x > 0).all() else x


def test_a_branch_on_infinities_is_taken_as_for_finite_numbers() -> None:
    assert [layer.name for layer in capture(Clamped(), torch.zeros(2, 3))] == ["x", "exp", "output"]


def test_other_branches_on_values_are_refused() -> None:
    with pytest.raises(GraphError, match="decides by the value"):
        capture(Branches(), torch.zeros(2, 3))
