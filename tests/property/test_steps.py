"""The steps from one layout to another, carried out by all ranks on real arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.partition.layout import REPLICATE, Layout, Shard, partial_axes, sharding_axes
from slicewise.partition.steps import Op, steps
from tests.campaigns import examples
from tests.property.ranks import Array, boxes_of, cut, executed, numbered, scattered
from tests.property.strategies import Shape, layouts, meshes, shapes


def assert_lies_as(layout: Layout, parts: list[Array], whole: Array, mesh: Mesh) -> None:
    """Sums over Partial axes give the whole's parts, and ranks along Replicate axes agree."""
    summed = partial_axes(layout)
    repeated = tuple(axis for axis, placement in enumerate(layout) if placement is REPLICATE)
    for rank, box in enumerate(boxes_of(whole.shape, layout, mesh)):
        total = np.sum([parts[member] for member in mesh.group(rank, summed)], axis=0)
        assert np.array_equal(total, cut(whole, box))
        for member in mesh.group(rank, repeated):
            assert np.array_equal(parts[member], parts[rank])


@examples(250)
@given(shapes(max_extent=7), meshes(), st.data())
def test_steps_turn_any_layout_into_any_other(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    source, target = (data.draw(layouts(shape, mesh, empty=True)) for _ in "st")
    whole = numbered(shape)
    parts = scattered(whole, source, mesh)
    assert_lies_as(source, parts, whole, mesh)
    now = source
    for step in steps(shape, source, target, mesh):
        assert step.source == now
        parts, now = executed(parts, shape, step, mesh), step.target
    assert now == target
    assert_lies_as(target, parts, whole, mesh)


@examples(150)
@given(shapes(), meshes(), st.data())
def test_a_layout_change_is_at_most_one_reduction_and_one_move(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    path = steps(shape, source, target, mesh)
    operations = [step.op for step in path if step.op is not Op.LOCAL]
    assert operations in ([], [Op.ALL_REDUCE], [Op.ALL_GATHER], [Op.ALL_TO_ALL]) or (
        operations[0] is Op.ALL_REDUCE and len(operations) == 2 and operations[1] is not Op.ALL_REDUCE
    )
    for step in path:
        assert (step.op is Op.LOCAL) == (mesh.group_size(step.axes) == 1)


@examples(250)
@given(shapes(max_extent=9), meshes(), st.data())
def test_an_all_to_all_spans_no_outer_axis_along_which_both_layouts_agree(
    shape: Shape, mesh: Mesh, data: st.DataObject
) -> None:
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    for step in steps(shape, source, target, mesh):
        if step.op is Op.ALL_TO_ALL:
            for dim in range(len(shape)):
                for before, after in zip(
                    sharding_axes(step.source, dim), sharding_axes(step.target, dim), strict=False
                ):
                    if before != after:
                        break
                    assert before not in step.axes


def test_samples_that_stay_apart_are_in_no_common_group() -> None:
    mesh = Mesh((Axis("outer", 2, 0), Axis("inner", 2, 1)))
    rows, columns = (Shard(0), Shard(0)), (Shard(0), Shard(1))
    assert [step.axes for step in steps((8, 8), rows, columns, mesh)] == [(1,)]
    # the inner of two chunkings depends on the outer: here both axes are needed
    assert [step.axes for step in steps((8, 8), rows, (Shard(1), Shard(0)), mesh)] == [(0, 1)]


@given(shapes(), meshes(), st.data())
def test_a_layout_needs_no_steps_to_itself(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    layout = data.draw(layouts(shape, mesh))
    assert steps(shape, layout, layout, mesh) == ()
