import pytest

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, Shard
from slicewise.partition.steps import Op, Step, steps

S0, S1 = Shard(0), Shard(1)
GRID = Mesh.of({"outer": 2, "inner": 2})


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ((PARTIAL, S0), (REPLICATE, S0), [(Op.ALL_REDUCE, (0,))]),
        ((PARTIAL, PARTIAL), (REPLICATE, REPLICATE), [(Op.ALL_REDUCE, (0, 1))]),
        ((S0, S1), (S0, REPLICATE), [(Op.ALL_GATHER, (1,))]),
        ((S0, S0), (REPLICATE, REPLICATE), [(Op.ALL_GATHER, (0, 1))]),
        ((S0, S0), (REPLICATE, S0), [(Op.ALL_TO_ALL, (0, 1))]),  # the outer axis goes: parts change place
        ((S0, REPLICATE), (S1, REPLICATE), [(Op.ALL_TO_ALL, (0,))]),
        ((S0, S1), (S1, S0), [(Op.ALL_TO_ALL, (0, 1))]),
        ((PARTIAL, REPLICATE), (S0, REPLICATE), [(Op.ALL_TO_ALL, (0,))]),  # a reduce-scatter
        ((REPLICATE, REPLICATE), (S0, S1), [(Op.LOCAL, ())]),
        ((S0, REPLICATE), (S0, S0), [(Op.LOCAL, ())]),
        ((REPLICATE, S0), (PARTIAL, S0), [(Op.LOCAL, ())]),
        ((PARTIAL, REPLICATE), (REPLICATE, S0), [(Op.LOCAL, ()), (Op.ALL_REDUCE, (0,))]),  # less to reduce
        ((S0, PARTIAL), (S1, PARTIAL), [(Op.ALL_TO_ALL, (0,))]),
        ((S0, S1), (PARTIAL, S1), [(Op.ALL_GATHER, (0,)), (Op.LOCAL, ())]),
    ],
)
def test_each_change_takes_the_collectives_one_expects(
    source: Layout, target: Layout, expected: list[tuple[Op, tuple[int, ...]]]
) -> None:
    assert [(step.op, step.axes) for step in steps((8, 8), source, target, GRID)] == expected


def test_uneven_parts_are_not_gathered_but_routed() -> None:
    assert steps((5,), (S0, REPLICATE), (REPLICATE, REPLICATE), GRID) == (
        Step(Op.ALL_TO_ALL, (0,), (S0, REPLICATE), (REPLICATE, REPLICATE)),
    )


def test_one_device_never_talks() -> None:
    assert steps((8, 8), (), (), Mesh.of({})) == ()
