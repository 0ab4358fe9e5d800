"""Whole numbers of a model's own are no numbers of samples, though a capture may happen to use as many."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.graph.capture import capture
from tests.distributed.cases import Call

OWN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "factor": lambda x, number: x * number,
    "divisor": lambda x, number: x / number,
    "summand": lambda x, number: x + number,
    "alpha": lambda x, number: torch.add(x, x, alpha=number),
    "limit": lambda x, number: x.clamp(max=number),
    "exponent": lambda x, number: x.pow(number),
    "border": lambda x, number: F.pad(x, (0, number)),
    "shift": lambda x, number: x.roll(number, 1),
    "shift of samples": lambda x, number: x.roll(number, 0),
    "length": lambda x, number: x * torch.arange(number).float().mean(),
}


@pytest.mark.parametrize("number", [211, 422, 223, 211 * 223])
@pytest.mark.parametrize("kind", OWN)
@pytest.mark.filterwarnings("ignore::slicewise.graph.capture.OpaqueLayerWarning")
def test_a_constant_stays_a_constant(kind: str, number: int) -> None:
    graph = capture(Call(lambda x: OWN[kind](x, number)), torch.zeros(2, 6))
    numbers = [layer.options.get("arguments") for layer in graph]
    assert "batch" not in str(numbers)
    grown = graph.with_batch(7)
    assert [layer.options.get("arguments") for layer in grown] == numbers
    assert grown.outputs[0].shape == (7, 6 + number if kind == "border" else 6)


def test_the_number_of_samples_is_followed() -> None:
    graph = capture(Call(lambda x: x / len(x)), torch.zeros(2, 6))
    assert graph["div"].options["arguments"]["other"] == {"batch": 1}


@pytest.mark.parametrize("size", [211, 422, 223, 211 * 223])
def test_sizes_of_what_a_model_holds_do_not_grow_with_the_batch(size: int) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(size))

        def forward(self, x: Tensor) -> Tensor:
            summed: Tensor = x * self.get_buffer("table").cumsum(0)[-1]
            return summed

    graph = capture(Table(), torch.zeros(2, 6)).with_batch(7)
    assert graph["cumsum"].shape == (size,)


def test_a_constant_and_a_size_are_both_kept_apart() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(223))

        def forward(self, x: Tensor) -> Tensor:
            divided: Tensor = x * self.get_buffer("table").cumsum(0)[-1] / 211
            return divided

    graph = capture(Both(), torch.zeros(2, 6)).with_batch(7)
    assert graph["cumsum"].shape == (223,)
    assert graph["div"].options["arguments"]["other"] == 211
