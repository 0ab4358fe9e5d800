"""Shifted windows cut by rows: the numbers of one device, and of every roll no more than what it moves."""

from functools import cache

import pytest
import torch
from torch import nn

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import WeatherSwin
from slicewise.search.baselines import BASELINES
from tests.builders import machine
from tests.distributed.comparing import compare, counted_bytes, random_slicings, spatial_slicings
from tests.distributed.world import World

TOLERANCE = 1e-10


@cache
def _weather() -> tuple[nn.Module, LayerGraph]:
    torch.manual_seed(0)
    model = WeatherSwin(3, 16, (2, 2, 1), 2, image=(65, 32), window=2)
    return model, capture(model, torch.zeros(1, 3, 65, 32), name="weather")


@pytest.mark.parametrize("how", ["rows", "tokens", "random"])
def test_a_weather_model_equals_one_device(how: str, world: World) -> None:
    assert world.run(_difference, how, world.ranks) < TOLERANCE


def test_so_it_does_on_a_grid_of_ranks(quartet: World) -> None:
    assert quartet.run(_difference, "grid", 4) < TOLERANCE


def _difference(how: str, ranks: int) -> float:
    model, graph = _weather()
    cluster = machine(ranks)
    mesh = cluster.mesh
    if how == "random":
        slicings = random_slicings(graph, mesh, 3)
    elif how == "tokens":
        slicings = BASELINES["sequence"](AnalyticModel(graph, cluster))
    else:
        rows = (Dim.H,) * len(mesh.axes)
        slicings = spatial_slicings(graph, mesh, rows if how == "rows" else (Dim.H, Dim.W))
        rolls = [slicings[layer.name] for layer in graph if layer.kind is Kind.ROLL]
        assert rows in rolls or how == "grid"
    found = compare(model, graph, slicings, mesh)
    return max(found.output, found.gradient, found.state)


def test_rolls_send_what_they_move_and_no_more(quartet: World) -> None:
    counted, predicted = quartet.run(_sent)
    assert counted == predicted


def _sent() -> tuple[int, int]:
    """16 x 8 patches of 16 channels, moved by one: four ranks send a row each, forward and backward."""
    model, graph = _weather()
    mesh = Mesh.of({"local": 4})
    slicings = spatial_slicings(graph, mesh, (Dim.H, Dim.H))
    costs = AnalyticModel(graph, machine(4)).plan_costs(slicings)
    fine = [layer for layer in graph if layer.kind is Kind.ROLL and layer.shape == (1, 16, 8, 16)]
    assert len(fine) == 2
    for layer in fine:
        assert slicings[layer.name] == (Dim.H, Dim.H)
        assert costs[layer.name].halo_bytes == 2 * 4 * 8 * 16 * 4
    return counted_bytes(model, graph, slicings, mesh), sum(cost.bytes_moved for cost in costs.values())
