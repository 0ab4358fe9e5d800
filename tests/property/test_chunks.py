"""Slicings of local batch norms never cut a chunk, and their bytes are the chunks' own."""

from itertools import accumulate, product

from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.cost.volume import statistics_items
from slicewise.graph.chunks import cut, with_local_statistics
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import layouts, statistics_axes
from slicewise.partition.legal import Space, legal_slicings, refusal
from slicewise.partition.parts import boxes
from tests.builders import Net
from tests.campaigns import examples
from tests.property.strategies import meshes


@st.composite
def local_norms(draw: st.DrawFn, mesh: Mesh) -> Layer:
    net = Net()
    batch, channels = draw(st.integers(mesh.devices, 4 * mesh.devices)), draw(st.integers(1, 9))
    name = net.norm(net.input(batch, channels, *draw(st.lists(st.integers(3, 10), min_size=1, max_size=2))))
    return with_local_statistics(net.graph, mesh.devices)[name]


def chunk_starts(layer: Layer) -> list[int]:
    return list(accumulate(cut(layer.shape[0], layer.chunk or 0)[:-1], initial=0))


@examples(150)
@given(meshes(), st.data())
def test_samples_are_sliced_wherever_no_chunk_is_cut(mesh: Mesh, data: st.DataObject) -> None:
    layer = data.draw(local_norms(mesh))
    edges = {*chunk_starts(layer), layer.shape[0]}
    for slicing in product((Dim.N, None), repeat=len(mesh.axes)):
        start, stop = (side[:, 0] for side in boxes(layer.shape, layouts(layer, slicing).output, mesh))
        cut = not {*start.tolist(), *stop.tolist()} <= edges
        assert (refusal(layer, slicing, mesh) is not None) == (cut or bool((start >= stop).any()))


@given(meshes(), st.data())
def test_a_batch_that_divides_is_sliced_along_any_axes(mesh: Mesh, data: st.DataObject) -> None:
    net = Net()
    name = net.norm(net.input(mesh.devices * data.draw(st.integers(1, 5)), 2, 3))
    layer = with_local_statistics(net.graph, mesh.devices)[name]
    for slicing in product((Dim.N, None), repeat=len(mesh.axes)):
        assert refusal(layer, slicing, mesh) is None
        assert statistics_axes(layer, slicing) == ()


@examples(150)
@given(meshes(), st.data())
def test_every_rank_gathers_two_numbers_per_chunk_and_channel_it_has(mesh: Mesh, data: st.DataObject) -> None:
    layer = data.draw(local_norms(mesh))
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh, Space(dims_per_tier=3))))
    starts = chunk_starts(layer)
    held = 0
    for start, stop in zip(*boxes(layer.shape, layouts(layer, slicing).output, mesh), strict=True):
        chunks = sum(start[0] <= first < stop[0] for first in starts)
        held += 2 * chunks * int(stop[1] - start[1])
    others = mesh.group_size(statistics_axes(layer, slicing)) - 1
    forward, backward = statistics_items(layer, slicing, mesh)
    assert forward == others * held
    assert backward * (others + 1) == 2 * others * held
