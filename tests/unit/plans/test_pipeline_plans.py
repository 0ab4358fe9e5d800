import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError, PlanError, RequestError, SlicewiseError
from slicewise.graph.sources import load_graph
from slicewise.partition.spelling import spelled
from slicewise.planning import baseline_plan, model_of, pipeline_plan, predicted_of
from slicewise.plans.plan import Plan
from tests.builders import Net, machine, small_cnn
from tests.campaigns import sample

CLUSTER = machine(2)
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return pipeline_plan(small_cnn(), CLUSTER, batch=8, micro_batches=4)


def edited(plan: Plan, edit: Edit) -> Plan:
    fields: dict[str, Any] = json.loads(json.dumps(plan.to_dict()))
    edit(fields)
    return Plan.from_dict(fields, "plan.json")


def test_a_pipeline_plan_survives_its_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan.save(path)
    loaded = Plan.load(path)
    assert loaded.pipeline == plan.pipeline
    assert loaded.to_dict() == json.loads(path.read_text())
    loaded.check(loaded.sized(small_cnn()), CLUSTER.mesh)
    assert predicted_of(loaded, small_cnn(), CLUSTER) == plan.predicted


def test_stages_are_readable(plan: Plan) -> None:
    pipeline = plan.to_dict()["pipeline"]
    assert (pipeline["schedule"], pipeline["micro_batches"]) == ("1f1b", 4)
    first, second = pipeline["stages"]
    assert (first["first"], second["last"]) == ("input0", "output0")
    assert first["layers"] + second["layers"] == len(small_cnn())
    assert first["forward_s"] > 0 < first["backward_s"]
    assert {spelled(slicing, plan.axes) for slicing in plan.slicings.values()} == {"whole"}


def test_a_plan_without_a_pipeline_has_no_such_entry(plan: Plan) -> None:
    fields = plan.to_dict()
    del fields["pipeline"]
    assert Plan.from_dict(fields, "old.json").pipeline is None
    assert "pipeline" not in Plan.from_dict(fields, "old.json").to_dict()


def test_a_cut_may_be_moved_by_name_and_is_priced_where_it_is(plan: Plan) -> None:
    moved = edited(plan, lambda fields: fields["pipeline"]["stages"][0].update(last="conv0"))
    moved.check(moved.sized(small_cnn()), CLUSTER.mesh)
    assert predicted_of(moved, small_cnn(), CLUSTER)["bytes_moved"] == 2 * 8 * 8 * 8 * 8 * 4 + 8
    assert predicted_of(moved, small_cnn(), CLUSTER) != plan.predicted


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda f: f["pipeline"]["stages"][0].update(last="nowhere"), "cannot cut behind 'nowhere'"),
        (lambda f: f["pipeline"]["stages"][0].update(last="linear0"), "cannot cut behind linear0: a stage would have"),
        (lambda f: f["pipeline"]["stages"].pop(0), "the plan has 1 stages for 2 devices; each device holds one"),
        (lambda f: f["pipeline"].update(micro_batches=3), "8 samples do not divide into 3 micro-batches"),
        (lambda f: f["pipeline"].update(micro_batches=1), r"1f1b needs a micro-batch per stage, 2 or more \(got 1\)"),
        (lambda f: f["pipeline"].update(schedule="zigzag"), "unknown schedule 'zigzag'; choose from 1f1b, gpipe"),
        (lambda f: f["pipeline"]["stages"][1].update(last="conv0"), "the last stage ends with output0, not with conv0"),
        (lambda f: f["pipeline"]["stages"][0].pop("last"), r"plan.json: pipeline.stages\[0\].last is missing; must"),
        (lambda f: f.update(pipeline=[1]), "plan.json: pipeline is a list of 1; must be a table or null"),
        (lambda f: f["layers"][1].update(slicing={"tier00": "N"}), "conv0: a pipeline plan slices no layer; remove"),
    ],
)
def test_an_edit_that_cannot_run_is_refused_by_what_is_wrong(plan: Plan, edit: Edit, message: str) -> None:
    def load() -> None:
        loaded = edited(plan, edit)
        loaded.check(loaded.sized(small_cnn()), CLUSTER.mesh)

    with pytest.raises(SlicewiseError, match=message) as refused:
        load()
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_there_are_no_slicings_to_explain(plan: Plan) -> None:
    with pytest.raises(PlanError, match="a pipeline plan slices no layer, so there are no slicings to explain"):
        model_of(plan, small_cnn(), CLUSTER)


def test_layers_cost_what_their_stages_do(plan: Plan) -> None:
    moved = sum(cost["transfer_bytes"] for cost in plan.costs.values())
    assert moved + 8 == plan.predicted["bytes_moved"]
    assert plan.pipeline is not None
    stages = sum(stage["forward_s"] + stage["backward_s"] for stage in plan.pipeline.stages)
    assert sum(cost["compute_s"] for cost in plan.costs.values()) == pytest.approx(4 * stages)


def test_a_network_with_a_skip_over_everything_cannot_be_cut() -> None:
    net = Net("skip")
    trunk = net.fork(net.input(4, 3, 8, 8))
    net.output(net.add(net.conv(net.conv(trunk, 3), 3), trunk))
    with pytest.raises(InfeasibleError, match="skip cuts into 1 stages at most"):
        pipeline_plan(net.graph, CLUSTER, batch=4)


@pytest.mark.parametrize(
    "model", sample(["alexnet", "vgg16", "resnet50", "densenet121", "inception_v3"], quick=["alexnet", "resnet50"])
)
def test_the_zoos_chains_of_blocks_make_pipelines(model: str) -> None:
    cluster = load_cluster("p100-4x4").with_devices(4)
    graph = load_graph(model)
    made = pipeline_plan(graph, cluster, batch=64, training=Training(optimizer="momentum"))
    made.check(made.sized(graph), cluster.mesh)
    one = pipeline_plan(graph, cluster.with_devices(2), batch=64, training=Training(optimizer="momentum"))
    assert made.predicted["iteration_s"] < one.predicted["iteration_s"]


def test_a_pipeline_is_a_strategy_like_any_other() -> None:
    made = baseline_plan(small_cnn(), CLUSTER, "pipeline", batch=8, micro_batches=4)
    assert made.to_dict() == pipeline_plan(small_cnn(), CLUSTER, batch=8, micro_batches=4).to_dict()
    with pytest.raises(RequestError, match='`cost="optcnn"` has no price for a pipeline; use analytic'):
        baseline_plan(small_cnn(), CLUSTER, "pipeline", batch=8, cost="optcnn")
    with pytest.raises(RequestError, match=r"`segments` are a pipeline's micro-batches; `strategy=\"data\"` has none"):
        baseline_plan(small_cnn(), CLUSTER, "data", batch=8, micro_batches=4)
