from typing import Any

import pytest

from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Found
from slicewise.graph.window import Window
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor


def pool(operator: str, **arguments: Any) -> Found:
    defaults = {"kernel_size": [3, 3], "stride": [], "padding": [0, 0], "ceil_mode": False}
    return meaning(operator, (2, 4, 3, 3), {"self": tensor("NFHW", 2, 4, 9, 9)}, **{**defaults, **arguments})


def adaptive(operator: str, *sizes: int) -> Found:
    return meaning(operator, (2, 4, *sizes), {"self": tensor("NFHW", 2, 4, 9, 7)}, output_size=sizes)


def test_pooling_without_a_stride_steps_by_its_kernel() -> None:
    assert known(pool("max_pool2d")).windows == {dim: Window(kernel=3, stride=3) for dim in (Dim.H, Dim.W)}


@pytest.mark.parametrize("operator", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("arguments", [{}, {"padding": [1, 1]}, {"ceil_mode": True}])
def test_pooling_slices_space_whatever_happens_at_the_borders(operator: str, arguments: dict[str, Any]) -> None:
    assert spelled(pool(operator, **arguments)) == "NFHW -> NFHW"


def test_adaptive_pooling_is_a_window_only_where_it_divides() -> None:
    for operator in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        found = known(adaptive(operator, 3, 2))
        assert (found.dims, found.letters) == ("NFH.", "NFHW")
        assert found.windows == {Dim.H: Window(kernel=3, stride=3)}


def test_averaging_all_of_space_is_a_reduction() -> None:
    found = known(adaptive("adaptive_avg_pool2d", 1, 1))
    assert found.kind is Kind.REDUCE
    assert spelled(found) == "NFHW -> NF.."
    assert found.options["arguments"] == {"dims": [2, 3], "keep": True, "mean": True}


def test_averaging_to_the_same_size_is_nothing() -> None:
    assert adaptive("adaptive_avg_pool2d", 9, 7) == SAME
