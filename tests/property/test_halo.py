"""What a spatial slice reads, against every window put down by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.borders import halo_seconds
from slicewise.cost.network import Network
from slicewise.graph.dims import SPACE
from slicewise.graph.layer import Layer
from slicewise.graph.window import Window
from slicewise.partition.choices import Choices
from slicewise.partition.halo import halo, needed
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.legal import Space, legal_slicings
from slicewise.partition.parts import as_boxes, intervals
from slicewise.partition.route import Transfer, route
from tests.builders import output_extent
from tests.campaigns import examples
from tests.property.ranks import boxes_of, cut, deliver, groups, numbered, received_s
from tests.property.strategies import DEEP_SIZES, TIER_SIZES, WINDOWED, clusters, layers, meshes


@st.composite
def windows(draw: st.DrawFn, *, dilations: st.SearchStrategy[int]) -> Window:
    stride = draw(st.integers(1, 4))
    transposed = draw(st.booleans())
    return Window(
        kernel=draw(st.integers(1, 4)),
        stride=stride,
        padding=draw(st.integers(0, 3)),
        dilation=draw(dilations),
        transposed=transposed,
        output_padding=draw(st.integers(0, stride - 1)) if transposed else 0,
    )


def taps(window: Window, outputs: range, input_extent: int) -> set[int]:
    """The input positions that the outputs multiply with a weight; those beyond the borders are padding."""
    offsets = [tap * window.dilation - window.padding for tap in range(window.kernel)]
    if window.transposed:
        inputs = range(-window.reach, input_extent + window.reach)
        return {i for i, offset in product(inputs, offsets) if i * window.stride + offset in outputs}
    return {output * window.stride + offset for output, offset in product(outputs, offsets)}


def span(window: Window, outputs: range, input_extent: int) -> list[int]:
    """From the first position to the last, what lies between the taps of a dilated window included."""
    solid = replace(window, kernel=window.reach, dilation=1)
    read = taps(solid, outputs, input_extent)
    return [i for i in range(input_extent) if min(read, default=i + 1) <= i <= max(read, default=i - 1)]


@examples(300)
@given(windows(dilations=st.integers(1, 3)), st.integers(1, 20), meshes(), st.data())
def test_needed_intervals_are_what_the_windows_of_the_part_span(
    window: Window, extent: int, mesh: Mesh, data: st.DataObject
) -> None:
    outputs = output_extent(window, extent)
    assume(outputs > 0)
    axes = tuple(axis for axis in range(len(mesh.axes)) if data.draw(st.booleans()))
    start, stop = needed(window, extent, outputs, axes, mesh)
    first, last = intervals(outputs, axes, mesh)
    for rank in range(mesh.devices):
        mine = range(first[rank], last[rank])
        if not mine:
            continue
        region = list(range(start[rank], stop[rank]))
        assert region == span(window, mine, extent)
        assert taps(window, mine, extent) & set(range(extent)) <= set(region)


@examples(150)
@given(layers(WINDOWED), meshes(), st.data())
def test_there_is_a_halo_exactly_where_a_rank_reads_what_it_does_not_own(
    layer: Layer, mesh: Mesh, data: st.DataObject
) -> None:
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh, Space(dims_per_tier=3))))
    placed = layouts(layer, slicing)
    own = boxes_of(layer.input_shapes[0], placed.inputs[0], mesh)
    lacking = set()
    for rank, part in enumerate(boxes_of(layer.shape, placed.output, mesh)):
        for dim, window in layer.windows.items():
            position = layer.input_dims[0].index(dim)
            extent = layer.input_shapes[0][position]
            read = span(window, range(*part[layer.dims.index(dim)]), extent)
            if not set(read) <= set(range(*own[rank][position])):
                lacking.add(dim)
    exchange = halo(layer, slicing, mesh)
    assert (exchange is None) == (not lacking)
    if exchange:
        assert exchange.axes == tuple(axis for axis, dim in enumerate(slicing) if dim in lacking)


@examples(150)
@given(layers(WINDOWED), meshes(), st.data())
def test_one_exchange_along_the_halos_axes_brings_all_that_is_read(
    layer: Layer, mesh: Mesh, data: st.DataObject
) -> None:
    """Corners included: ranks that are neighbours in both directions exchange directly."""
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh, Space(dims_per_tier=3))))
    exchange = halo(layer, slicing, mesh)
    assume(exchange is not None)
    assert exchange is not None
    whole = numbered(layer.input_shapes[0])
    own = boxes_of(layer.input_shapes[0], layouts(layer, slicing).inputs[0], mesh)
    wanted = as_boxes((exchange.start, exchange.stop))
    for rank in range(mesh.devices):
        group = mesh.group(rank, exchange.axes)
        mine = [own[member] for member in group]
        results, _ = deliver([cut(whole, box) for box in mine], mine, [wanted[member] for member in group])
        assert np.array_equal(results[group.index(rank)], cut(whole, wanted[rank]))
        for dim, window in layer.windows.items():
            outputs = range(*boxes_of(layer.shape, layouts(layer, slicing).output, mesh)[rank][layer.dims.index(dim)])
            position = layer.input_dims[0].index(dim)
            read = taps(window, outputs, whole.shape[position]) & set(range(whole.shape[position]))
            assert read <= set(range(*wanted[rank][position]))


def slowest_rank_s(layer: Layer, slicing: Slicing, network: Network) -> float:
    """One exchange, from its routes."""
    mesh = network.cluster.mesh
    exchange = halo(layer, slicing, mesh)
    if exchange is None:
        return 0.0
    own = boxes_of(layer.input_shapes[0], layouts(layer, slicing).inputs[0], mesh)
    wanted = as_boxes((exchange.start, exchange.stop))
    transfers = [
        Transfer(group[moved.source], group[moved.target], moved.box)
        for group in groups(mesh, exchange.axes)
        for moved in route([own[rank] for rank in group], [wanted[rank] for rank in group])
    ]
    rates = [network.all_to_all_s_per_byte(tier) * 4 for tier in range(len(network.cluster.tiers))]
    return network.all_to_all_latency_s(exchange.axes) + max(received_s(transfers, mesh, rates))


def even(layer: Layer, slicing: Slicing, mesh: Mesh) -> bool:
    """Whether the windowed dims go into equal parts, of the input and of the output."""
    degrees = {dim: mesh.group_size(tuple(axis for axis, d in enumerate(slicing) if d is dim)) for dim in layer.windows}
    return all(extent % degree == 0 for dim, degree in degrees.items() for extent in layer.extents(dim))


@examples(250)
@given(layers(WINDOWED), clusters([*TIER_SIZES, *DEEP_SIZES]), st.data())
def test_halo_seconds_are_the_slowest_ranks_for_one_cut_and_some_ranks_for_several(
    layer: Layer, cluster: Cluster, data: st.DataObject
) -> None:
    legal = legal_slicings(layer, cluster.mesh, Space(dims_per_layer=4, dims_per_tier=3))
    slicing = data.draw(st.sampled_from([chosen for chosen in legal if set(SPACE) & set(chosen)] or legal))
    network = Network(cluster)
    found_s = float(halo_seconds(layer, Choices.of([slicing], cluster.mesh), network, 4)[0])
    expected_s = slowest_rank_s(layer, slicing, network)
    assert found_s <= expected_s * (1 + 1e-9)
    if len(set(SPACE) & set(slicing)) < 2 or even(layer, slicing, cluster.mesh):
        assert found_s >= expected_s * (1 - 1e-9)


@given(layers(WINDOWED), clusters(), st.data())
def test_halo_seconds_of_many_slicings_are_those_of_each(layer: Layer, cluster: Cluster, data: st.DataObject) -> None:
    legal = legal_slicings(layer, cluster.mesh)
    network = Network(cluster)
    together = halo_seconds(layer, Choices.of(legal, cluster.mesh), network, 2)
    row = data.draw(st.integers(0, len(legal) - 1))
    assert together[row] == halo_seconds(layer, Choices.of([legal[row]], cluster.mesh), network, 2)[0]
