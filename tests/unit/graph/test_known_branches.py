"""Branches whose way is known, and others."""

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


class LayerDrop(nn.Module):
    def __init__(self, drop: float) -> None:
        super().__init__()
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        if torch.rand([]) < self.drop:
            return x
        return x.exp()


def test_a_layer_drop_of_zero_drops_nothing() -> None:
    assert [layer.name for layer in capture(LayerDrop(0.0), torch.zeros(2, 3))] == ["x", "exp", "output"]


class Moved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        draw = torch.rand([])
        draw -= 0.5
        return x if draw < 0.0 else x.exp()


def test_a_number_that_is_written_into_is_no_longer_known() -> None:
    with pytest.raises(GraphError, match="decides by the value of a tensor"):
        capture(Moved(), torch.zeros(2, 3))


def test_other_branches_on_values_are_refused_with_their_line() -> None:
    line = r"decides by the value of a tensor \(test_known_branches.py:\d+: "
    with pytest.raises(GraphError, match=line + r"return x.exp\(\) if \(x > 0\).all\(\) else x\)"):
        capture(Branches(), torch.zeros(2, 3))
    with pytest.raises(GraphError, match=line + r"if torch.rand\(\[\]\) < self.drop:\)"):
        capture(LayerDrop(0.1), torch.zeros(2, 3))
