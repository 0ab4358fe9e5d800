"""The layer-wise paper's model and space, against every item on every device."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slicewise.cluster.cluster import Cluster
from slicewise.cost.optcnn import OptCnnModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.window import Window
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import SPACES
from tests.campaigns import examples
from tests.property.strategies import clusters, graphs, slicings

Bools = NDArray[np.bool_]
SPACE = SPACES["optcnn"]


def is_idle(slicing: Slicing, place: list[int]) -> bool:
    """Along axes that slice nothing only the first devices work."""
    return any(dim is None and position > 0 for dim, position in zip(slicing, place, strict=True))


def part(extent: int, letter: str, slicing: Slicing, place: list[int], sizes: tuple[int, ...]) -> range:
    """Equal parts, the outermost axis first."""
    start, length = 0, extent
    for dim, position, size in zip(slicing, place, sizes, strict=True):
        if dim == letter:
            length //= size
            start += position * length
    return range(start, start + length)


def read(window: Window, outputs: range, extent: int) -> range:
    """From the first position that any output reads to the last."""
    first = outputs[0] * window.stride - window.padding
    last = outputs[-1] * window.stride - window.padding + window.dilation * (window.kernel - 1)
    return range(max(first, 0), min(last + 1, extent))


def held(producer: Layer, slicing: Slicing, place: list[int], sizes: tuple[int, ...]) -> Bools:
    """The items of the producer's output that a device has."""
    items = np.zeros(producer.shape, dtype=bool)
    if not is_idle(slicing, place):
        items[
            np.ix_(
                *(
                    part(extent, letter, slicing, place, sizes)
                    for letter, extent in zip(producer.dims, producer.shape, strict=True)
                )
            )
        ] = True
    return items


def wanted(consumer: Layer, slot: int, slicing: Slicing, place: list[int], sizes: tuple[int, ...]) -> Bools:
    """The items of an input that a device reads for its part of the output."""
    items = np.zeros(consumer.input_shapes[slot], dtype=bool)
    if is_idle(slicing, place):
        return items
    ranges = []
    for letter, extent in zip(consumer.input_dims[slot], consumer.input_shapes[slot], strict=True):
        if letter in consumer.windows:
            outputs = part(consumer.shape[consumer.dims.index(letter)], letter, slicing, place, sizes)
            ranges.append(read(consumer.windows[Dim(letter)], outputs, extent))
        elif letter in consumer.dims:
            ranges.append(part(extent, letter, slicing, place, sizes))
        else:
            ranges.append(range(extent))
    items[np.ix_(*ranges)] = True
    return items


def moved_s(model: OptCnnModel, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> float:
    """Every item that a device lacks comes from the nearest that has it, at the bandwidth of the tier between.

    All of them one after the other.
    """
    mesh = model.cluster.mesh
    producer = model.graph[consumer.inputs[slot]]
    places = mesh.coordinates.tolist()
    has = [held(producer, before, place, mesh.sizes) for place in places]
    seconds = 0.0
    for rank, place in enumerate(places):
        missing = wanted(consumer, slot, after, place, mesh.sizes) & ~has[rank]
        for tier in reversed(range(len(model.cluster.tiers))):
            for other, elsewhere in enumerate(places):
                apart = {axis.tier for axis, a, b in zip(mesh.axes, place, elsewhere, strict=True) if a != b}
                if min(apart, default=None) == tier:
                    seconds += int((missing & has[other]).sum()) * 4 / model.cluster.tiers[tier].bytes_per_s
                    missing &= ~has[other]
        assert not missing.any()
    return seconds * (2 if producer.name in model.graph.gradients else 1)


@examples(80)
@given(graphs(max_layers=3), clusters([(2,), (4,), (2, 2)]), st.data())
def test_a_layout_change_takes_as_long_as_all_that_devices_lack(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    model = OptCnnModel(graph, cluster)
    chosen = data.draw(slicings(graph, cluster.mesh, SPACE))
    for layer in graph:
        for slot, source in enumerate(layer.inputs):
            cost = model.edge_cost(layer, slot, chosen[source], chosen[layer.name])
            expected_s = moved_s(model, layer, slot, chosen[source], chosen[layer.name])
            assert cost.transfer_s == pytest.approx(expected_s, rel=1e-9)


@examples(60)
@given(graphs(), clusters(), st.data())
def test_the_papers_space_slices_output_dims_into_equal_parts(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    mesh = cluster.mesh
    for name, slicing in data.draw(slicings(graph, mesh, SPACE)).items():
        layer = graph[name]
        for dim in {dim for dim in slicing if dim is not None}:
            assert dim in layer.dims
            degree = prod(size for size, sliced in zip(mesh.sizes, slicing, strict=True) if sliced is dim)
            assert layer.shape[layer.dims.index(dim)] % degree == 0
