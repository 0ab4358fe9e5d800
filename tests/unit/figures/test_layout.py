"""Folding loses no layer, and no two boxes of a network stand on each other."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.figures.folding import folded
from slicewise.figures.lanes import lanes_of
from slicewise.graph.kind import Kind
from slicewise.graph.sources import load_graph


@pytest.mark.parametrize(
    ("model", "most"),
    [("alexnet", 20), ("resnet50", 45), ("resnet152", 45), ("densenet121", 50), ("inception_v3", 110), ("unet3d", 30)],
)
def test_a_folded_network_stands_for_every_layer(model: str, most: int) -> None:
    graph = load_graph(model)
    shape = folded(graph, {layer.name: () for layer in graph})
    assert len(shape.nodes) <= most
    times = [1] * len(shape.nodes)
    for fold in shape.folds:
        for node in fold.nodes:
            times[node] *= fold.times
    layers = sum(count * len(node.layers) for count, node in zip(times, shape.nodes, strict=True))
    assert layers == sum(layer.kind is not Kind.FORK for layer in graph)


def test_blocks_of_different_slicings_are_not_folded() -> None:
    graph = load_graph("resnet152")
    alike = {layer.name: () for layer in graph}
    odd = {**alike, "layer3.20.conv2": (None,)}
    one, other = folded(graph, alike), folded(graph, odd)
    assert len(other.nodes) > len(one.nodes)
    assert any(node.slicing == (None,) for node in other.nodes)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_nodes_never_share_a_place_and_edges_go_down(sizes: list[int], random) -> None:  # type: ignore[no-untyped-def]
    inputs = [random.sample(range(node), min(node, size)) for node, size in enumerate(sizes)]
    lanes = lanes_of(inputs)
    places = list(zip(lanes.rank, lanes.lane, strict=True))
    assert len(set(places)) == len(places)
    for node, sources in enumerate(inputs):
        assert all(lanes.rank[source] < lanes.rank[node] for source in sources)
    # a long edge's lane is free of boxes on its way
    for (source, node), lane in lanes.edges.items():
        between = range(lanes.rank[source] + 1, lanes.rank[node])
        assert not any((rank, lane) in places for rank in between)


def test_a_chain_is_one_straight_lane() -> None:
    lanes = lanes_of([[], *([node] for node in range(9))])
    assert set(lanes.lane) == {0}
    assert all(after - before == 1 for before, after in pairwise(lanes.rank))
