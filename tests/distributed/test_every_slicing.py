"""Every layer kind under every slicing that the one legal list holds, against one device in float64."""

from itertools import product

import pytest
import torch
from torch import nn

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from tests.campaigns import LONG, sample
from tests.distributed.cases import CASES
from tests.distributed.comparing import Truth, compare
from tests.distributed.world import World

TOLERANCE = 1e-10
# cases of many layers: only their products, for other cases walk the rest; on two ranks the long run walks all
LARGE = ("attention", "multi-head attention", "attention in windows")
SEVERAL_AXES = (
    "conv2d strided", "transposed 2d", "linear", "max pool ceil", "batch norm", "group norm", "concat",
    "attention in windows", "words", "roll", "roll beyond the neighbour",
)  # fmt: skip
# of kinds that other cases have too; they wait for the long run
VARIANTS = (
    "conv2d dilated", "conv2d no bias", "conv2d valid", "conv1d same dilated", "conv2d of a buffer",
    "transposed 1d with gaps", "transposed 2d", "transposed 2d grouped", "linear channels last",
    "attention with a mask", "attention spelled out", "max pool", "avg pool", "avg pool padded",
    "avg pool without borders", "avg pool ceil", "avg pool 1d", "adaptive pool", "instance norm plain",
    "group norm plain", "group norm of one", "layer norm plain", "relu", "layer scale viewed", "one scale", "pad",
    "pad channels", "nearest", "bilinear", "bilinear by three", "linear 1d", "pixel unshuffle", "mean of samples",
    "concat rows", "squared error",
)  # fmt: skip
BATCH = 5  # divides over no mesh here: every rank gets the whole batch, and parts are uneven


@pytest.mark.parametrize("name", sample(CASES, quick=[name for name in CASES if name not in VARIANTS]))
def test_every_legal_slicing_computes_what_one_device_computes(name: str, world: World) -> None:
    walked, wrong = world.run(_walk, name, world.ranks)
    assert walked > 1
    assert wrong == []


@pytest.mark.parametrize("name", sample(SEVERAL_AXES, quick=["linear", "batch norm"]))
def test_so_does_every_slicing_over_two_axes(name: str, quartet: World) -> None:
    assert quartet.run(_walk, name, quartet.ranks)[1] == []


def test_linear_layers_may_take_input_channels_before_filters(quartet: World) -> None:
    """What one of them sums over, the next slices on the same ranks."""
    assert quartet.run(_turned) == []


def _turned() -> list[str]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 12))
    graph = capture(model, torch.zeros(2, 12)).with_batch(BATCH)
    mesh, truth = Mesh.of({"local": 4}), Truth.of(model, graph)
    wrong = []
    for first, second in product([(Dim.F, Dim.C), (Dim.C, Dim.F)], repeat=2):
        assert all({first, second} <= set(legal_slicings(graph[name], mesh)) for name in ("0", "2"))
        slicings: dict[str, Slicing] = {layer.name: (None, None) for layer in graph}
        slicings |= {"0": first, "2": second}
        difference = compare(model, graph, slicings, mesh, truth=truth)
        wrong += [] if difference.below(TOLERANCE) else [f"{first} {second}: {difference}"]
    return wrong


def _walk(name: str, ranks: int) -> tuple[int, list[str]]:
    """All slicings of a case's layers, one layer at a time."""
    model, graph = _case(name)
    mesh = Mesh.of({"local": ranks})
    whole = {layer.name: (None,) * len(mesh.axes) for layer in graph}
    ties = {position: tie for tie in graph.ties for position in tie}
    truth = Truth.of(model, graph)
    walked, wrong = 0, []
    for position, layer in enumerate(graph):
        if name in LARGE and not layer.kind.has(Trait.PRODUCT) and (ranks > 2 or not LONG):
            continue
        if layer.kind.has(Trait.EDGE) or layer.name == "0" or ties.get(position, (position,))[0] != position:
            continue
        together = [graph.layers[other].name for other in ties.get(position, (position,))]
        for slicing in legal_slicings(layer, mesh):
            difference = compare(model, graph, {**whole, **dict.fromkeys(together, slicing)}, mesh, truth=truth)
            walked += 1
            if not difference.below(TOLERANCE):
                wrong.append(f"{layer.name} {slicing}: {difference}")
    return walked, wrong


def _case(name: str) -> tuple[nn.Module, LayerGraph]:
    """A pointwise convolution before the layers makes their input gradients count."""
    build, (channels, *space) = CASES[name]
    torch.manual_seed(0)
    before = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(space) - 1](channels, channels, 1)
    model = nn.Sequential(before, build())
    return model, capture(model, torch.zeros(2, channels, *space)).with_batch(BATCH)


def test_the_cases_cover_every_kind_that_computes_and_survive_their_files() -> None:
    graphs = [_case(name)[1] for name in CASES]
    assert {layer.kind for graph in graphs for layer in graph} == set(Kind) - {Kind.OPAQUE}
    quick = [graph for name, graph in zip(CASES, graphs, strict=True) if name not in VARIANTS]
    assert {layer.kind for graph in quick for layer in graph} == set(Kind) - {Kind.OPAQUE}
    assert [LayerGraph.from_json(graph.to_json()) for graph in graphs] == graphs
