from typing import Any

import pytest

from slicewise.graph.kind import Kind
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor

PLANE = {"self": tensor("NFHW", 2, 4, 8, 9)}


@pytest.mark.parametrize(
    ("arguments", "shape", "layer"),
    [
        ({"dim": [2, 3], "keepdim": True}, (2, 4, 1, 1), "NFHW -> NF.."),
        ({"dim": [-1, -2]}, (2, 4), "NFHW -> NF"),
        ({"dim": 1}, (2, 8, 9), "NFHW -> NHW"),
        ({"dim": [0]}, (4, 8, 9), "NFHW -> FHW"),
        ({}, (), "NFHW -> "),
    ],
)
def test_the_output_lacks_what_is_summed(arguments: dict[str, Any], shape: tuple[int, ...], layer: str) -> None:
    found = known(meaning("mean", shape, PLANE, **arguments))
    assert found.kind is Kind.REDUCE
    assert spelled(found) == layer


def test_a_norm_is_a_sum_of_squares_and_its_root() -> None:
    found = meaning("linalg_vector_norm", (2, 4, 1, 1), PLANE, ord=2, dim=[2, 3], keepdim=True)
    assert isinstance(found, tuple)
    squares, root = found
    assert (squares.kind, spelled(squares)) == (Kind.REDUCE, "NFHW -> NF..")
    assert (root.kind, spelled(root)) == (Kind.ELEMENTWISE, "NF.. -> NF..")
    other = meaning("linalg_vector_norm", (2, 4, 1, 1), PLANE, ord=1, dim=[2, 3], keepdim=True)
    assert spelled(other) == "NF.. -> NF.."  # no sum of squares: its dims are whole


def test_what_is_no_sum_keeps_the_dims_that_go_whole() -> None:
    assert spelled(meaning("amax", (2, 4), PLANE, dim=[2, 3])) == "NF.. -> NF"
