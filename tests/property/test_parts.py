"""Parts are DTensor's nested chunks, and they tile the tensor."""

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import Shard, sharding_axes
from slicewise.partition.parts import box, boxes, held_items, intersect, intervals, largest, relative, volume
from tests.property.ranks import boxes_of, cut, numbered
from tests.property.strategies import Shape, layouts, meshes, shapes


def naive_interval(extent: int, axes: tuple[int, ...], mesh: Mesh, rank: int) -> list[int]:
    """torch.chunk, axis after axis, on the list of positions itself."""
    positions = list(range(extent))
    for axis in axes:
        size = -(-len(positions) // mesh.sizes[axis])
        place = int(mesh.coordinates[rank, axis])
        positions = positions[place * size : (place + 1) * size]
    return positions


@given(st.integers(0, 30), meshes(), st.data())
def test_intervals_are_nested_chunks(extent: int, mesh: Mesh, data: st.DataObject) -> None:
    axes = tuple(axis for axis in range(len(mesh.axes)) if data.draw(st.booleans()))
    start, stop = intervals(extent, axes, mesh)
    for rank in range(mesh.devices):
        assert list(range(start[rank], stop[rank])) == naive_interval(extent, axes, mesh, rank)


@given(shapes(), meshes(), st.data())
def test_parts_tile_the_tensor_once_per_replica(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    layout = data.draw(layouts(shape, mesh, empty=True))
    copies = np.zeros(shape, dtype=np.int64)
    for part in boxes_of(shape, layout, mesh):
        cut(copies, part)[...] += 1
    replicas = prod(size for size, held in zip(mesh.sizes, layout, strict=True) if not isinstance(held, Shard))
    assert (copies == replicas).all()


@given(shapes(), meshes(), st.data())
def test_the_largest_part_is_rank_zeros(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    layout = data.draw(layouts(shape, mesh, empty=True))
    start, stop = boxes(shape, layout, mesh)
    extents = stop - start
    assert largest(shape, layout, mesh) == tuple(extents[0])
    assert (extents <= extents[0]).all()


@given(shapes(), meshes(), st.data())
def test_held_items_are_the_sum_over_ranks(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    layout = data.draw(layouts(shape, mesh, empty=True))
    total = sum(volume(box(shape, layout, mesh, rank)) for rank in range(mesh.devices))
    assert held_items(shape, layout, mesh) == total


@given(shapes(min_dims=2, max_dims=2), meshes(), st.data())
def test_an_intersection_holds_exactly_the_common_items(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    whole = numbered(shape)
    one, other = (data.draw(st.sampled_from(boxes_of(shape, data.draw(layouts(shape, mesh)), mesh))) for _ in "ab")
    common = intersect(one, other)
    expected = np.intersect1d(cut(whole, one), cut(whole, other))
    if common is None:
        assert expected.size == 0
    else:
        assert np.array_equal(cut(whole, common).ravel(), expected)
        assert np.array_equal(cut(whole, one)[relative(common, one)], cut(whole, common))


@given(shapes(), meshes(), st.data())
def test_sharding_axes_are_the_axes_whose_placement_names_the_dim(
    shape: Shape, mesh: Mesh, data: st.DataObject
) -> None:
    layout = data.draw(layouts(shape, mesh))
    for dim in range(len(shape)):
        assert sharding_axes(layout, dim) == tuple(axis for axis, held in enumerate(layout) if held == Shard(dim))
