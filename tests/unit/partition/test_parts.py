import pytest

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import PARTIAL, REPLICATE, Shard
from slicewise.partition.parts import box, held_items, intervals, largest

GRID = Mesh.of({"outer": 2, "inner": 2})


def test_five_rows_on_two_by_two_are_two_one_one_one() -> None:
    start, stop = intervals(5, (0, 1), GRID)
    assert (stop - start).tolist() == [2, 1, 1, 1]
    assert start.tolist() == [0, 2, 3, 4]


def test_one_axis_repeats_its_parts_along_the_other() -> None:
    assert [box((5, 3), (REPLICATE, Shard(0)), GRID, rank) for rank in range(4)] == [
        ((0, 3), (0, 3)),
        ((3, 5), (0, 3)),
        ((0, 3), (0, 3)),
        ((3, 5), (0, 3)),
    ]


def test_four_rows_on_three_leave_the_last_part_empty() -> None:
    start, stop = intervals(4, (0,), Mesh.of({"all": 3}))
    assert (stop - start).tolist() == [2, 2, 0]


def test_intervals_are_shared_and_so_cannot_be_written_to() -> None:
    start, _ = intervals(5, (0, 1), GRID)
    with pytest.raises(ValueError, match="read-only"):
        start[0] = 1


def test_partial_and_replicated_axes_hold_whole_copies() -> None:
    assert largest((6, 4), (PARTIAL, Shard(1)), GRID) == (6, 2)
    assert held_items((6, 4), (PARTIAL, Shard(1)), GRID) == 48
    assert held_items((6, 4), (REPLICATE, REPLICATE), GRID) == 96
