"""What mixes the samples of a batch is done on all of them, whatever the other layers' slicings."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.dims import Dim
from slicewise.partition.legal import legal_slicings
from tests.distributed.cases import Call
from tests.distributed.comparing import compare, random_slicings
from tests.distributed.world import World

BATCH = 12
MIXED = {
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
    "flip": lambda x: x.flip(0),
    "flip of several": lambda x: x.flip(1, 0),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "sort": lambda x: x.sort(0)[0],
    "roll": lambda x: x.roll(1, 0),
    "roll back": lambda x: x.roll(-2, 0),
    "roll of several": lambda x: x.roll((3, 1), (0, 1)),
    "roll by more": lambda x: x.roll(13, 0),
    "roll by a whole turn of the batch that capture looks at": lambda x: x.roll(211, 0),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_samples_equal_one_device(pair: World, name: str) -> None:
    for difference in pair.run(_compared, name):
        assert difference.below(1e-12), difference


def _compared(name: str) -> list[object]:
    def forward(x: Tensor) -> Tensor:
        mixed: Tensor = MIXED[name](x)
        return mixed

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), Call(forward), nn.Linear(8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)
        graph = capture(model, torch.zeros(2, 5)).with_batch(BATCH)
    mesh = Mesh.of({"local": dist.get_world_size()})
    by_sample = {
        layer.name: (Dim.N,) if (Dim.N,) in legal_slicings(layer, mesh) else (None,) for layer in graph
    }  # fmt: skip
    return [compare(model, graph, by_sample, mesh), compare(model, graph, random_slicings(graph, mesh, 1), mesh)]
