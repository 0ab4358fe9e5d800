"""Networks with attention that nobody here wrote, by sample, head and token: outputs and gradients of one device."""

from collections.abc import Iterable
from itertools import product

import pytest
import torch

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.capture import capture
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import contract, refusal, sliceable_dims
from tests.builders import machine
from tests.distributed.comparing import Truth, compare, counted_bytes, random_slicings
from tests.distributed.world import World
from tests.pricing import cost_of
from tests.third_party import ATTENTION

TOLERANCE = 1e-10
SAMPLES, HEADS, TOKENS = (Dim.N,), (Dim.A, Dim.F), (Dim.Q, *SPACE)
CUTS = {2: [(SAMPLES,), (HEADS,), (TOKENS,)], 4: [(SAMPLES, TOKENS), (TOKENS, HEADS), (SAMPLES, HEADS)]}  # per axis


@pytest.mark.parametrize("name", ["ViT", "Swin", "ViT of monai"])
def test_networks_equal_one_device_by_sample_head_and_token(name: str, world: World) -> None:
    assert world.run(_differences, name, 4, world.ranks) == []


def test_a_volume_through_a_unetr_equals_one_device(pair: World) -> None:
    assert pair.run(_differences, "UNETR", 1, 2) == []


@pytest.mark.parametrize("name", ["ViT", "Swin"])
def test_they_send_the_bytes_that_were_predicted(name: str, pair: World) -> None:
    for label, predicted, counted in pair.run(_bytes, name):
        assert counted == predicted, label


def _plans(graph: LayerGraph, mesh: Mesh) -> dict[str, dict[str, Slicing]]:
    cuts = CUTS[mesh.devices]
    plans = {"/".join("".join(dims) for dims in cut): _cut(graph, mesh, cut) for cut in cuts}
    return plans | {"random": random_slicings(graph, mesh, 0)}


def _cut(graph: LayerGraph, mesh: Mesh, wanted: tuple[Iterable[Dim], ...]) -> dict[str, Slicing]:
    """Along each axis the first of the wanted dims that a layer has; along some axes nothing, where it must be."""

    def choice(layer: Layer) -> Slicing:
        has = sliceable_dims(layer)
        options = [[*(dim for dim in dims if dim in has), None] for dims in wanted]
        fixed = contract(layer, mesh)
        nothing: Slicing = (None,) * len(mesh.axes)
        if layer.kind.has(Trait.EDGE):
            return fixed or nothing
        return next(slicing for slicing in product(*options) if refusal(layer, slicing, mesh) is None)

    return {layer.name: choice(layer) for layer in graph}


def _network(name: str, batch: int) -> tuple[torch.nn.Module, LayerGraph]:
    torch.manual_seed(0)
    model = ATTENTION[name].build()
    return model, capture(model, torch.zeros(2, *ATTENTION[name].shape), name=name).with_batch(batch)


def _differences(name: str, batch: int, ranks: int) -> list[str]:
    model, graph = _network(name, batch)
    mesh, truth = Mesh.of({"local": ranks}), Truth.of(model, graph)
    found = {
        label: compare(model, graph, slicings, mesh, truth=truth) for label, slicings in _plans(graph, mesh).items()
    }
    return [f"{name}, {label}: {difference}" for label, difference in found.items() if not difference.below(TOLERANCE)]


def _bytes(name: str) -> list[tuple[str, int, int]]:
    cluster = machine(2)
    model, graph = _network(name, 4)
    costs = AnalyticModel(graph, cluster)
    return [
        (label, cost_of(costs, slicings).bytes_moved, counted_bytes(model, graph, slicings, cluster.mesh))
        for label, slicings in _plans(graph, cluster.mesh).items()
    ]
