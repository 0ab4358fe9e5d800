"""Writing into parts of tensors, constants that forward() spells out, and tensors of no items."""

import pytest
import torch
from torch import Tensor, nn

from slicewise.errors import GraphError
from slicewise.graph.capture import capture
from slicewise.graph.kind import Kind


class Writes(nn.Module):
    """As window attention masks its scores, and relative positions are counted."""

    def forward(self, x: Tensor) -> Tensor:
        mask = x.new_zeros(4, 4)
        mask[:2, 1:] = 3
        y = x * 2.0
        y[:, 0] += mask.sum()
        y[:, :, 1:].mul_(torch.tensor([1.0, 2.0, 3.0]))
        return torch.cat([y, x[:, :0]], dim=1)


class TooMany(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2.0
        turned = y.transpose(1, 2)
        y[:, 0] = 1.0
        return turned + 1.0


def test_writing_into_parts_makes_new_tensors_and_masks_are_derived() -> None:
    graph = capture(Writes(), torch.zeros(2, 5, 4))
    kinds = {str(layer.options.get("op")).split(".")[1]: layer.kind for layer in graph if "op" in layer.options}
    assert Kind.OPAQUE not in kinds.values()
    assert (kinds["zeros"], kinds["constant"]) == (Kind.DERIVED, Kind.DERIVED)
    assert {"select_scatter", "slice_scatter"} <= set(kinds)
    assert not [layer for layer in graph if layer.kind is Kind.CONCAT]  # with a tensor of no items


def test_another_view_that_is_read_later_is_refused() -> None:
    with pytest.raises(GraphError, match="writes in place into memory that"):
        capture(TooMany(), torch.zeros(2, 5, 4))
