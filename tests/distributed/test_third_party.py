"""Networks that nobody here wrote, on two ranks: outputs, running statistics and all gradients of one device."""

from itertools import combinations, product

import pytest
import torch

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.capture import capture
from slicewise.graph.dims import SPACE
from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from tests.builders import machine
from tests.campaigns import sample
from tests.distributed.comparing import Truth, compare, counted_bytes, random_slicings, spatial_slicings
from tests.distributed.conftest import world_of
from tests.distributed.cuts import cut_plans
from tests.distributed.world import World
from tests.pricing import cost_of
from tests.third_party import ATTENTION, MORE, NETWORKS

TOLERANCE = 1e-9
EVERY = NETWORKS | ATTENTION | MORE
EXECUTED = ("RegNet", "ConvNeXt V2", "EfficientNet", "BiT", "PoolFormer", "UNet", "SegResNet", "DenseNet")


@pytest.mark.parametrize(
    ("name", "batch"),
    sample(product(EXECUTED, (4, 3)), quick=[("ConvNeXt V2", 3), ("UNet", 4)]),
)
def test_third_party_networks_equal_one_device_under_a_spatial_and_random_plans(
    name: str, batch: int, pair: World
) -> None:
    assert pair.run(_differences, name, batch, 2) == []


@pytest.mark.long
@pytest.mark.parametrize("name", EXECUTED)
def test_third_party_networks_on_four_ranks_equal_one_device(name: str, quartet: World) -> None:
    assert quartet.run(_differences, name, 2, 4, 4) == []


@pytest.mark.parametrize("name", sample(EXECUTED, quick=["UNet"]))
def test_third_party_networks_send_the_bytes_that_were_predicted(name: str, pair: World) -> None:
    for label, predicted, counted in pair.run(_bytes, name):
        assert counted == predicted, label


@pytest.mark.parametrize(
    ("name", "batch"),
    sample(
        [("ViT", 4), ("Swin", 4), ("ViT of monai", 4), ("UNETR", 1), ("DETR", 4), ("DINOv3", 4)],
        quick=[("ViT", 4), ("DETR", 4)],
    ),
)
def test_networks_with_attention_equal_one_device_by_sample_head_and_token(name: str, batch: int, pair: World) -> None:
    assert pair.run(_differences, name, batch, 1) == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "batch"), [("ViT", 4), ("Swin", 4), ("ViT of monai", 4), ("UNETR", 2)])
def test_networks_with_attention_on_four_ranks_equal_one_device(name: str, batch: int, quartet: World) -> None:
    assert quartet.run(_differences, name, batch, 1, 4) == []


@pytest.mark.long
@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("ranks", [2, 4])
def test_unseen_networks_with_attention_equal_one_device(name: str, ranks: int, worlds: dict[int, World]) -> None:
    assert world_of(worlds, ranks).run(_differences, name, 4, 1, ranks) == []


@pytest.mark.parametrize("name", sample(["ViT", "Swin"], quick=["ViT"]))
def test_networks_with_attention_send_the_bytes_that_were_predicted(name: str, pair: World) -> None:
    for label, predicted, counted in pair.run(_bytes, name):
        assert counted == predicted, label


def _bytes(name: str) -> list[tuple[str, int, int]]:
    cluster = machine(2)
    model = EVERY[name].build()
    captured = capture(model, torch.zeros(2, *EVERY[name].shape), name=name)
    pairs = []
    for batch in (4, 3):
        graph = captured.with_batch(batch)
        costs = AnalyticModel(graph, cluster)
        # masks stay whole: they are not of the plan's dtype
        chosen = random_slicings(graph, cluster.mesh, 0)
        masks = [layer for layer in graph if layer.name not in graph.gradients and not layer.kind.has(Trait.EDGE)]
        whole: Slicing = (None,) * len(cluster.mesh.axes)
        plans = _plans(name, graph, cluster.mesh) | {"random": chosen | {layer.name: whole for layer in masks}}
        for label, slicings in plans.items():
            predicted = cost_of(costs, slicings).bytes_moved
            pairs.append((f"{label}, batch {batch}", predicted, counted_bytes(model, graph, slicings, cluster.mesh)))
    return pairs


def _differences(name: str, batch: int, seeds: int, ranks: int = 2) -> list[str]:
    torch.manual_seed(0)
    network = EVERY[name]
    model = network.build().double()
    mesh = Mesh.of({"local": ranks})
    graph = capture(model, network.sample(torch.float64), name=name).with_batch(batch)
    plans = _plans(name, graph, mesh)
    plans |= {f"random {seed}": random_slicings(graph, mesh, seed) for seed in range(seeds)}
    wrong = []
    truth = Truth.of(model, graph, seed=1)
    for label, slicings in plans.items():
        difference = compare(model, graph, slicings, mesh, truth=truth)
        if not difference.below(TOLERANCE):
            wrong.append(f"{name}, batch {batch}, {label}: {difference}")
    return wrong


def _plans(name: str, graph: LayerGraph, mesh: Mesh) -> dict[str, dict[str, Slicing]]:
    return _spatial_plans(graph, mesh) if name in NETWORKS else cut_plans(graph, mesh)


def _spatial_plans(graph: LayerGraph, mesh: Mesh) -> dict[str, dict[str, Slicing]]:
    """Every layer with space by one of its dims; on several axes also by two."""
    dims = [dim for dim in SPACE if dim in graph.inputs[0].dims]
    cuts: list[Slicing] = [(dim,) * len(mesh.axes) for dim in dims]
    if len(mesh.axes) == 2:
        cuts += combinations(dims, 2)
    return {f"by {''.join(map(str, cut))}": spatial_slicings(graph, mesh, cut) for cut in cuts}
