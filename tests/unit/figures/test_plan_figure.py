"""What a figure shows is what the table says."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.figures.runs import runs
from slicewise.figures.slicings import plan_figure
from slicewise.figures.step_terms import step_terms
from slicewise.figures.steps import strategy_bars
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan, plan
from slicewise.plans.plan import Plan
from slicewise.units import amount, seconds

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def alexnet() -> Plan:
    return plan(load_graph("alexnet"), load_cluster("p100-4x4"), batch=512)


def _steps(made: Plan) -> dict[str, Mapping[str, Any]]:
    return {"layer-wise": made.predicted, **made.baselines}


def test_the_bars_of_a_figure_add_up_to_the_steps_of_the_table(alexnet: Plan) -> None:
    bars = strategy_bars(alexnet)
    assert list(bars) == ["layer-wise", "data", "filter", "spatial", "owt", *alexnet.references]
    for name, row in _steps(alexnet).items():
        assert sum(bars[name].values()) == pytest.approx(row["iteration_s"], rel=1e-8)
    # gradients and borders share the links: more than the terms of the prediction
    assert bars["spatial"]["waiting"] > 0.1 * alexnet.baselines["spatial"]["iteration_s"]


@pytest.mark.parametrize("model", ["resnet50", "unet3d"])
@pytest.mark.parametrize("strategy", ["data", "spatial", "pipeline"])
def test_terms_add_up_to_the_step_of_every_strategy(model: str, strategy: str) -> None:
    cluster = load_cluster("p100-4x4").with_devices(4)
    row = baseline_plan(load_graph(model), cluster, strategy, batch=16).predicted
    terms = step_terms(row)
    assert sum(terms.values()) == pytest.approx(row["iteration_s"], rel=1e-8)
    assert min(terms.values()) >= 0


def test_a_figure_names_every_step_as_the_table_does(alexnet: Plan) -> None:
    drawn = plan_figure(alexnet)
    for row in _steps(alexnet).values():
        assert f"{seconds(row['iteration_s'])}, {amount(row['bytes_moved'], 'B')} sent" in drawn


def test_the_readmes_picture_and_table_are_of_this_plan(alexnet: Plan) -> None:
    """`make pictures` draws it anew."""
    picture = (ROOT / "docs/images/alexnet-16gpu.svg").read_text()
    readme = (ROOT / "README.md").read_text()
    for row in _steps(alexnet).values():
        step, sent = seconds(row["iteration_s"]), amount(row["bytes_moved"], "B")
        assert f"{step}, {sent} sent" in picture
        assert f"| {step} | {sent} | {amount(row['peak_memory_bytes'], 'B')} |" in readme


def test_layers_of_one_slicing_are_one_bar() -> None:
    made = baseline_plan(load_graph("resnet50"), load_cluster("p100-4x4"), "data", batch=512)
    (only,) = runs(made)
    assert len(only) == 175


def test_a_run_ends_where_the_slicing_changes(alexnet: Plan) -> None:
    found = runs(alexnet)
    shown = [name for name, kind in alexnet.kinds.items() if kind not in ("input", "output")]
    assert [name for names in found for name in names] == shown
    for before, after in pairwise(found):
        assert len({alexnet.slicings[name] for name in before}) == 1
        assert alexnet.slicings[before[-1]] != alexnet.slicings[after[0]]
