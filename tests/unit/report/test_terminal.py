"""What a plan's proof says to people: of the optimum, and of the plan that is shown."""

from typing import Any

import pytest

import slicewise as sw
from slicewise.report.terminal import proof_told
from slicewise.search.certificate import OPTIMUM


@pytest.fixture(scope="module")
def proof() -> dict[str, Any]:
    return dict(sw.plan("lenet5", "p100-4x4", batch=64, devices=4).certificate)


@pytest.mark.parametrize(
    ("returned", "simulated_s", "told"),
    [
        (OPTIMUM, 0.01 * (1 - 1e-13), "With overlap simulated, none of 4 others is faster than this optimum."),
        ("data", 0.008, "but a faster one: data. With overlap simulated, it takes 8.00 ms and the optimum 10.0 ms."),
        (f"{OPTIMUM}, made simpler", 0.01, f"but a simpler one: {OPTIMUM}, made simpler."),
    ],
)
def test_the_proof_says_which_plan_is_shown(
    proof: dict[str, Any], returned: str, simulated_s: float, told: str
) -> None:
    row = {"returned": returned, "candidates": 5, "simulated_s": simulated_s, "optimum_simulated_s": 0.01}
    assert told in proof_told(proof | {"rescored": row})
