"""What a plan's page says of its proof, and of layers that are not sliced as the others."""

from dataclasses import replace
from typing import Any

import pytest

import slicewise as sw
from slicewise.graph.layer_graph import LayerGraph
from slicewise.report.terminal import answer, proof_told, repeated_told, show_plan
from slicewise.search.certificate import OPTIMUM
from slicewise.units import seconds
from tests.builders import Net, machine


def partly_known(batch: int) -> LayerGraph:
    net = Net("partly")
    net.output(net.conv(net.opaque(net.conv(net.input(batch, 4, 16, 16), 8)), 8))
    return net.graph


def test_an_operator_that_is_repeated_is_named_with_its_time_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    plan = sw.plan(partly_known(8), machine(4), batch=8)
    assert plan.slicings["opaque0"] == (None, None)
    told = repeated_told(plan)
    cost = plan.costs["opaque0"]
    assert "whole on every device: " in told
    assert told.endswith(f"opaque0 (opaque) takes {seconds(cost['compute_s'])}.")
    assert " kB; " in told
    show_plan(plan)
    assert told in " ".join(capsys.readouterr().out.split())


def test_where_every_layer_is_sliced_nothing_is_said() -> None:
    net = Net("known")
    net.output(net.conv(net.input(8, 4, 16, 16), 8))
    assert repeated_told(sw.plan(net.graph, machine(4), batch=8)) == ""


@pytest.mark.parametrize(("batch", "wanted"), [(8, "N4"), (2, "whole")])
def test_a_named_strategy_leaves_what_it_cannot_cut_to_samples_or_whole(
    batch: int, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of an image are tokens; what a linear layer makes of them all has none."""
    net = Net("head")
    x = net.fork(net.conv(net.input(batch, 4, 8, 8), 4))
    net.output(net.linear(net.flatten(net.attention(x, x, x)), 6))
    plan = sw.plan(net.graph, machine(4), batch=batch, strategy="sequence")
    show_plan(plan)
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    shown = next(line for name, line in rows.items() if name in ("flatten0", "linear0"))
    assert f" {wanted} " in shown
    assert any(" Q4 " in line for name, line in rows.items() if name == "attention0")


SMALLEST = "The plan with the smallest sum of costs (additive_s), proven"


@pytest.fixture(scope="module")
def proof() -> dict[str, Any]:
    return dict(sw.plan("lenet5", "p100-4x4", batch=64, devices=4).certificate)


@pytest.mark.parametrize(
    ("returned", "simulated_s", "told"),
    [
        (
            OPTIMUM,
            0.01 * (1 - 1e-13),
            "It has the smallest sum of costs (additive_s), proven. "
            "With overlap simulated, none of 4 others is faster.",
        ),
        (
            "data",
            0.008,
            f"{SMALLEST}, simulates at 10.0 ms. This one is faster: data.",
        ),
        (
            f"{OPTIMUM}, made simpler",
            0.01,
            f"{SMALLEST}, simulates at 10.0 ms. This one is simpler: {OPTIMUM}, made simpler.",
        ),
    ],
)
def test_the_proof_says_first_what_this_plan_takes_and_last_what_was_searched(
    proof: dict[str, Any], returned: str, simulated_s: float, told: str
) -> None:
    row = {"returned": returned, "candidates": 5, "simulated_s": simulated_s, "optimum_simulated_s": 0.01}
    whole = proof_told(proof | {"rescored": row})
    assert whole.startswith(f"This plan takes {seconds(simulated_s)}. {told}")
    assert whole.index("No plan of the space simulates below") < whole.index("The space has 10^")


def test_a_plan_that_is_a_strategy_is_told_so_beside_the_fastest_that_differs() -> None:
    plan = sw.plan("lenet5", "p100-4x4", batch=64, devices=4)
    assert set(plan.slicings.values()) == {("N", "N")}
    told = seconds(plan.baselines["owt"]["iteration_s"])
    assert f"This plan is data parallelism; the fastest strategy that differs, owt, takes {told}." in answer(plan)
    alone = replace(plan, baselines={"data": plan.baselines["data"]})
    assert "This plan is data parallelism." in answer(alone)
    other = replace(plan, baselines={"filter": plan.baselines["filter"], "owt": plan.baselines["owt"]})
    assert f"; the fastest other strategy, owt, takes {told}." in answer(other)
