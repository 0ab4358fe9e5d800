"""What stands beside a plan: one device, a pipeline, DDP as it comes."""

import pytest

from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning import plan
from slicewise.plans.plan import Plan
from slicewise.report.terminal import show_plan
from tests.builders import machine, residual_net, small_cnn


def test_one_device_and_a_pipeline_are_what_plans_for_them_are_predicted_to_take() -> None:
    made = plan(small_cnn(batch=8), machine(2, 2))
    alone = plan(small_cnn(batch=8), machine(2, 2).with_devices(1))
    staged = plan(small_cnn(batch=8), machine(2, 2), strategy="pipeline")
    assert made.references["one device"]["iteration_s"] == pytest.approx(alone.predicted["iteration_s"])
    assert made.references["pipeline"]["iteration_s"] == pytest.approx(staged.predicted["iteration_s"])


def test_ddp_is_data_parallelism_with_local_norms_and_told_only_where_that_differs() -> None:
    made = plan(residual_net(8), machine(2, 2))
    local = plan(residual_net(8), machine(2, 2), strategy="data", batchnorm="local")
    assert made.references["DDP"]["iteration_s"] == pytest.approx(local.predicted["iteration_s"])
    assert made.references["DDP"]["iteration_s"] < made.baselines["data"]["iteration_s"]
    assert "DDP" not in plan(small_cnn(batch=8), machine(2, 2)).references  # no batch norm in it
    assert "DDP" not in plan(residual_net(8), machine(2, 2), batchnorm="local").references


def test_what_is_not_possible_says_why() -> None:
    made = plan(small_cnn(batch=8), machine(16))
    row = made.references["pipeline"]
    assert not row["feasible"]
    assert "stages" in row["reason"]
    assert plan(small_cnn(batch=8), machine(2).with_devices(1)).references == {}


def test_references_survive_the_file() -> None:
    made = plan(residual_net(8), machine(2, 2))
    assert Plan.from_dict(made.to_dict(), "plan").references == made.references


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (small_cnn(batch=8), "more of them do not help here"),
        (residual_net(8), "`--batchnorm local` drops them"),
    ],
    ids=["one device", "exact norms"],
)
def test_a_person_is_told(graph: LayerGraph, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(plan(graph, machine(2, 2)))
    assert told in " ".join(capsys.readouterr().out.split())
