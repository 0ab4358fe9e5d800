"""What a plan's page says of layers that are not sliced as the others."""

import pytest

import slicewise as sw
from slicewise.graph.layer_graph import LayerGraph
from slicewise.report.terminal import repeated_told, show_plan
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
