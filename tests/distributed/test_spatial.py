"""Unmodified networks in training mode, every layer with space cut by space: the numbers of one device.

Outputs, running statistics and all gradients, in float64. Batch norms span the ranks, borders travel forward and back,
and the strided, padded and pooled layers between them do not line up with the cuts.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import ZOO, InceptionV3
from slicewise.partition.layout import Slicing
from tests.distributed.comparing import Difference, Truth, compare, spatial_slicings
from tests.distributed.world import World

TOLERANCE = 1e-10
BATCH = 2

# name -> (build, shape of a sample): small, but large enough that the last layer with space can still be cut
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet50": (ZOO["resnet50"].build, (3, 64, 64)),
    "resnet50 of larger images": (ZOO["resnet50"].build, (3, 128, 128)),
    "inception_v3": (partial(InceptionV3, dropout=0.0), (3, 107, 107)),
    "densenet121": (ZOO["densenet121"].build, (3, 64, 64)),
    "unet3d": (ZOO["unet3d"].build, (1, 16, 16, 16)),
}
SPATIAL_KINDS = (Kind.CONV, Kind.POOL, Kind.NORM, Kind.ELEMENTWISE, Kind.CONCAT)


@pytest.mark.long
def test_resnet50_cut_by_height_or_width_equals_one_device(pair: World) -> None:
    check(pair.run(_differences, "resnet50", 2, ["H", "W"]))


@pytest.mark.long
def test_resnet50_cut_by_height_and_width_over_four_ranks_equals_one_device(quartet: World) -> None:
    check(quartet.run(_differences, "resnet50", 4, ["HW"]))


@pytest.mark.long
@pytest.mark.parametrize("cut", ["H", "W"])
@pytest.mark.parametrize("name", ["inception_v3", "densenet121"])
def test_networks_of_branches_cut_by_height_or_width_equal_one_device(name: str, cut: str, pair: World) -> None:
    check(pair.run(_differences, name, 2, [cut]))


def test_unet3d_cut_by_depth_height_or_width_equals_one_device(pair: World) -> None:
    check(pair.run(_differences, "unet3d", 2, ["D", "H", "W"]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "cuts"),
    [
        ("resnet50 of larger images", ["HH", "WW"]),
        ("inception_v3", ["HW"]),
        ("densenet121", ["HW"]),
        ("unet3d", ["DH", "DW", "HW"]),
    ],
)
def test_further_cuts_over_four_ranks_equal_one_device(name: str, cuts: list[str], quartet: World) -> None:
    check(quartet.run(_differences, name, 4, cuts))


def check(differences: dict[str, Difference]) -> None:
    """Shown by `pytest -rP`."""
    for label, difference in differences.items():
        print(f"{label}: {difference}")
        assert difference.below(TOLERANCE), label


def _differences(name: str, ranks: int, cuts: list[str]) -> dict[str, Difference]:
    """Each cut against one device; "HW" cuts H along the first axis and W along the second."""
    build, shape = NETWORKS[name]
    torch.manual_seed(0)
    model = build()
    mesh = Mesh.of({"local": ranks})
    graph = capture(model, torch.zeros(2, *shape), name=name).with_batch(BATCH)
    truth = Truth.of(model, graph)
    differences = {}
    for cut in cuts:
        slicings = spatial_slicings(graph, mesh, tuple(map(Dim, cut)))
        assert uncut(graph, slicings) == []
        differences[f"{name} by {cut} on {ranks} ranks"] = compare(model, graph, slicings, mesh, truth=truth)
    return differences


def uncut(graph: LayerGraph, slicings: dict[str, Slicing]) -> list[str]:
    """Layers with space that no cut of space reaches on all ranks: there must be none."""
    return [
        layer.name
        for layer in graph
        if layer.kind in SPATIAL_KINDS
        and set(layer.dims) & set(SPACE)
        and any(extent > 1 for dim in SPACE for extent in layer.extents(dim))
        and not set(slicings[layer.name]) <= set(SPACE)
    ]
