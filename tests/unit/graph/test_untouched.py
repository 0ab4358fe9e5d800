"""A capture sees what forward() does besides computing, and leaves the model as it was."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from slicewise.errors import GraphError
from slicewise.graph.capture import capture

SAMPLE = torch.zeros(2, 3, 8, 8)


class _Counting(nn.Module):
    """Counts its steps, and remembers the size of what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.steps = 0
        self.size: tuple[int, int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        self.size = (x.shape[2], x.shape[3])
        self.seen = x.shape[1]
        return self.conv(x)  # type: ignore[no-any-return]


class _Warming(_Counting):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * min(self.steps, 100)


class _Drawing(_Counting):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y * 2 if random.random() < 0.5 else y


class _DrawingFromNumpy(_Counting):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y * 2 if np.random.rand() < 0.5 else y


def test_what_is_counted_and_remembered_without_effect_is_put_back() -> None:
    model = nn.Sequential(_Counting())
    graph = capture(model, SAMPLE)
    counting = model[0]
    assert isinstance(counting, _Counting)
    assert (counting.steps, counting.size, hasattr(counting, "seen")) == (0, None, False)
    assert not counting._forward_hooks
    assert not model._forward_hooks
    assert graph.fingerprint == capture(model, SAMPLE).fingerprint


class _Recording(nn.Module):
    """Puts hooks on its layers at the first step, as transformers does, and adds up what they record."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.installed = False
        self.record: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if not self.installed:
            self.conv.register_forward_hook(lambda _module, _inputs, y: self.record.append(y))
            self.installed = True
        self.record.clear()
        self.conv(x)
        return torch.stack(self.record).sum(0)


def test_hooks_that_the_first_step_puts_on_are_there_once() -> None:
    x = torch.randn(2, 3, 8, 8)
    model = _Recording()
    for _ in range(2):
        capture(model, SAMPLE)
        assert torch.equal(model(x), nn.functional.conv2d(x, model.conv.weight, model.conv.bias))
        assert len(model.conv._forward_hooks) == 1


def test_layers_that_depend_on_a_count_are_refused_by_name() -> None:
    model = nn.Sequential(_Warming())
    with pytest.raises(GraphError, match=r"changes 0\.steps.* and computes something else in the next step"):
        capture(model, SAMPLE)
    assert model[0].steps == 0


@pytest.mark.parametrize("kind", [_Drawing, _DrawingFromNumpy])
def test_numbers_drawn_outside_of_torch_are_refused(kind: type[nn.Module]) -> None:
    with pytest.raises(GraphError, match="random, which would be drawn once and for all"):
        capture(kind(), SAMPLE)


def test_a_spectral_norm_is_refused_by_name() -> None:
    model = nn.Sequential(torch.nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)))
    with pytest.raises(GraphError, match=r"writes into 0\.parametrizations\.weight\.0\._u"):
        capture(model, SAMPLE)


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class _Then(_Counting):
    """The convolution, then `function` of its output and the input."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.conv(x), x)


def _hooked(y: Tensor, _: Tensor) -> Tensor:
    y.register_hook(lambda gradient: gradient * 3)
    return y * 2


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda y, _: _Reversed.apply(y), r"_Reversed\.apply\(\), whose own backward\(\)"),
        (_hooked, "hooks a tensor"),
        (lambda y, x: y * (1.0 / len(x)), "mul with 0.0047.* for 211 samples and with 0.5 for 2"),
        (lambda y, x: y * len(x) ** 0.5, "mul with 14.5"),
        (lambda y, x: y * 2 if len(x) > 10 else y, "something else for 2 samples than for 211"),
    ],
)
def test_what_a_captured_network_would_not_do_is_refused(
    function: Callable[[Tensor, Tensor], Tensor], told: str
) -> None:
    with pytest.raises(GraphError, match=told):
        capture(_Then(function), SAMPLE)
    assert torch.autograd.Function.apply.__qualname__.endswith("apply")
    assert torch.Tensor.register_hook.__name__ == "register_hook"


@pytest.mark.parametrize(
    "function",
    [
        lambda y, x: y / len(x),
        lambda y, x: y.reshape(len(x), -1),
        lambda y, _: checkpoint(torch.relu, y, use_reentrant=True),
        lambda y, _: y + (torch.round(y) - y).detach(),
        lambda y, x: y + x.new_zeros(len(x), 1, 1, 1),
    ],
)
def test_what_follows_the_number_of_samples_is_taken(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert capture(_Then(function), SAMPLE).batch == 2
