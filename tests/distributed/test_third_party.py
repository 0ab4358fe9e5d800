"""Networks that nobody here wrote, on two ranks: outputs, running statistics and all gradients of one device."""

import pytest
import torch

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from tests.distributed.comparing import compare, random_slicings
from tests.distributed.world import World
from tests.third_party import NETWORKS

TOLERANCE = 1e-9
EXECUTED = ("RegNet", "ConvNeXt V2", "EfficientNet", "BiT", "PoolFormer", "UNet", "SegResNet", "DenseNet")


@pytest.mark.parametrize("name", EXECUTED)
@pytest.mark.parametrize("batch", [4, 3])
def test_third_party_networks_equal_one_device_under_a_spatial_and_random_plans(
    name: str, batch: int, pair: World
) -> None:
    assert pair.run(_differences, name, batch, 2) == []


def _differences(name: str, batch: int, seeds: int) -> list[str]:
    torch.manual_seed(0)
    network = NETWORKS[name]
    model = network.build()
    mesh = Mesh.of({"local": 2})
    graph = capture(model, torch.zeros(2, *network.shape), name=name).with_batch(batch)
    plans = {"spatial": _spatial_slicings(graph, mesh)}
    plans |= {f"random {seed}": random_slicings(graph, mesh, seed) for seed in range(seeds)}
    wrong = []
    for label, slicings in plans.items():
        difference = compare(model, graph, slicings, mesh, seed=1)
        if not difference.below(TOLERANCE):
            wrong.append(f"{name}, batch {batch}, {label}: {difference}")
    return wrong


def _spatial_slicings(graph: LayerGraph, mesh: Mesh) -> dict[str, Slicing]:
    """The outermost dim of space wherever a layer has one; samples, then nothing, elsewhere."""

    def choice(layer: Layer) -> Slicing:
        legal = legal_slicings(layer, mesh)
        wishes: list[Slicing] = [(dim,) for dim in (*SPACE, Dim.N)]
        return next((wish for wish in wishes if wish in legal), legal[0])

    return {layer.name: choice(layer) for layer in graph}
