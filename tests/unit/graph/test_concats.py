import torch
from torch import nn

from slicewise.graph.capture import capture
from slicewise.graph.kind import Kind
from slicewise.search.elimination import order


class Growing(nn.Module):
    """As third-party dense networks do it: every layer reads a list of all tensors so far."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4 * (number + 1), 4, 1) for number in range(layers))

    def forward(self, x_nchw: torch.Tensor) -> torch.Tensor:
        features = [x_nchw]
        for conv in self.convs:
            features.append(conv(torch.cat(features, 1)))
        return torch.cat(features, 1)


def test_a_concat_over_a_growing_list_joins_one_tensor_to_the_last() -> None:
    graph = capture(Growing(8), torch.zeros(2, 4, 8, 8))
    concats = [layer for layer in graph if layer.kind is Kind.CONCAT]
    assert [len(layer.inputs) for layer in concats][1:] == [2] * (len(concats) - 1)
    assert concats[-1].shape == (2, 4 * 9, 8, 8)


def test_dense_blocks_stay_narrow_however_long() -> None:
    def work(layers: int) -> float:
        graph = capture(Growing(layers), torch.zeros(2, 4, 8, 8))
        return order([10] * len(graph), [(i, j) for i, j, _ in graph.edges]).work

    assert work(16) < 3 * work(8)  # linear in depth; a shared list would need tables of a dozen dims


def test_a_concat_in_another_order_is_left_alone() -> None:
    class Swapped(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.cat([x, y], 1), torch.cat([y, x, x], 1)], 1)

    graph = capture(Swapped(), (torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4)))
    assert sorted(len(layer.inputs) for layer in graph if layer.kind is Kind.CONCAT) == [2, 2, 3]


def test_stacks_over_a_growing_list_are_left_alone() -> None:
    class Stacked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x, x + 1], 2).sum(2) + torch.stack([x, x + 1, x + 2], 2).sum(2)

    graph = capture(Stacked(), torch.zeros(2, 3, 4, 4))
    assert sorted(len(layer.inputs) for layer in graph if layer.kind is Kind.CONCAT) == [2, 3]
