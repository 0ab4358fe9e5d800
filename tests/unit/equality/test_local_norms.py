"""One device that normalises chunk by chunk, inside `--check`."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.equality.local_norms import LocalNorms
from slicewise.errors import PlanError
from slicewise.graph.capture import capture
from slicewise.graph.chunks import with_local_statistics
from tests.by_chunk import by_chunk

BATCH, RANKS = 11, 4


class Net(nn.Module):
    """Weights that are normalised themselves, a norm that trains, and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.frozen = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.frozen.get_buffer("running_mean").add_(0.5)
        self.frozen.eval()

    def forward(self, x: Tensor) -> Tensor:
        weight = F.batch_norm(self.conv.weight.reshape(1, 4, -1), None, None, training=True)
        y: Tensor = self.frozen(self.norm(F.conv2d(x, weight.reshape_as(self.conv.weight), self.conv.bias)))
        return y


def _network() -> tuple[nn.Module, LocalNorms]:
    torch.manual_seed(0)
    model = Net()
    graph = capture(copy.deepcopy(model), torch.zeros(2, 3, 5, 5)).with_batch(BATCH)
    return model, LocalNorms(with_local_statistics(graph, RANKS))


def test_only_norms_over_samples_go_chunk_by_chunk_and_the_first_is_remembered() -> None:
    model, norms = _network()
    reference = copy.deepcopy(model)
    assert isinstance(reference, Net)
    reference.norm = by_chunk(reference.norm, RANKS)  # type: ignore[assignment]
    x = torch.randn(BATCH, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    with norms:
        y = model(x)
    assert torch.allclose(y, reference(x), atol=1e-6)
    for name, buffer in reference.named_buffers():
        assert torch.allclose(model.get_buffer(name), buffer), name


def test_a_model_with_other_norms_than_its_graph_is_refused() -> None:
    model, norms = _network()
    with pytest.raises(PlanError, match="--check cannot follow the batch norms"), norms:
        model(torch.zeros(BATCH, 3, 6, 6))
