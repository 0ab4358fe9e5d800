"""Parts of forward() without gradients, or without autocast."""

import torch
from torch import Tensor, nn

from slicewise.graph.capture import capture


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            frozen = self.one(x).sin()
        with torch.autocast("cpu", enabled=False):
            y: Tensor = self.other(x) * frozen
        return y


class Awakened(Frozen):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y: Tensor = self.one(x)
            with torch.enable_grad():
                y = self.other(y)
        return y


def test_layers_under_no_grad_are_layers_and_no_gradient_reaches_them() -> None:
    graph = capture(Frozen(), torch.zeros(2, 4))
    assert {"one", "other"} <= set(graph.index)
    assert "one" not in graph.gradients
    assert "other" in graph.gradients


def test_gradients_switched_on_inside_of_no_grad_reach_what_is_inside() -> None:
    gradients = capture(Awakened(), torch.zeros(2, 4)).gradients
    assert "one" not in gradients
    assert "other" in gradients
