"""What was asked stays with the plan."""

import json
from pathlib import Path

import pytest

from slicewise.cost.training import Training
from slicewise.errors import PlanError
from slicewise.explaining.decisions import explain
from slicewise.explaining.what_if import what_if
from slicewise.partition.legal import Space
from slicewise.planning import baseline_plan, pareto, pipeline_plan, plan
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from tests.builders import machine, residual_net, small_cnn

ALL = Request(
    strategy="layerwise",
    training=Training(optimizer="adam", recompute=True),
    cost="optcnn",
    space=Space(dims_per_layer=2, dims_per_tier=1, reductions=False, uneven=False),
    objective="memory",
    memory_limit_bytes=1e9,
    fix=("conv0=N",),
    forbid=("*=C",),
    gap=0.01,
    time_limit_s=30.0,
    search="exhaustive",
    segments=4,
)


@pytest.mark.parametrize("request_", [Request(), ALL])
def test_a_request_is_read_as_it_was_written(request_: Request) -> None:
    assert Request.from_dict(json.loads(json.dumps(request_.to_dict())), "request") == request_


def test_every_way_to_a_plan_says_what_was_asked(tmp_path: Path) -> None:
    graph, pair = small_cnn(8), machine(2)
    made = {
        "layerwise": plan(graph, pair, fix=["conv0=N"], dims_per_layer=1, gap=0.1, memory_limit=float("inf")),
        "data": baseline_plan(graph, pair, "data", batch=8),
        "pipeline": pipeline_plan(graph, pair, batch=8, micro_batches=2),
    }
    for strategy, one in made.items():
        one.save(tmp_path / "plan.json")
        loaded = Plan.load(tmp_path / "plan.json")
        assert loaded.request is not None
        assert loaded.request.strategy == strategy
    asked = made["layerwise"].request
    assert asked is not None
    assert (asked.fix, asked.space, asked.gap) == (("conv0=N",), Space(dims_per_layer=1), 0.1)
    assert all(one.request is not None for one in pareto(graph, pair, forbid=["*=C"]))


def test_a_plan_without_a_request_is_asked_about_by_its_certificate(tmp_path: Path) -> None:
    made = plan(small_cnn(8), machine(2), fix=["conv0=N"], forbid=["*=C"])
    document = json.loads(made.to_json())
    del document["request"]
    (tmp_path / "plan.json").write_text(json.dumps(document))
    older = Plan.load(tmp_path / "plan.json")
    assert older.request is None
    assert (older.asked.fix, older.asked.forbid) == (("conv0=N",), ("*=C",))
    assert what_if(older, ["batch=16"]).after.certificate["constraints"][:2] == ("fix conv0=N", "forbid *=C")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("gap", 2, "request: gap is 2; must be a number from 0 to 1"),
        ("space", "full", "request: space is 'full'; must be a table"),
        ("dtype", "fp99", "unknown dtype 'fp99'"),
        ("plans", 3, "request: unknown field 'plans'"),
    ],
)
def test_a_wrong_request_is_refused_with_its_field(field: str, value: object, told: str) -> None:
    document = json.loads(plan(small_cnn(8), machine(2)).to_json())
    document["request"][field] = value
    with pytest.raises(PlanError, match=told):
        Plan.from_dict(document, "plan.json")


def test_planning_again_keeps_space_objective_and_limits() -> None:
    asked = {"dims_per_layer": 1, "dims_per_tier": 1, "objective": "memory", "forbid": ["conv*=H"], "gap": 0.2}
    made = plan(residual_net(8), machine(2, 2), **asked)  # type: ignore[arg-type]
    after = what_if(made, ["batch=16"]).after
    assert after.request == made.request
    assert after.certificate["objective"] == made.certificate["objective"] == "memory, then additive_s"
    assert "at most 1 dims per layer and 1 per tier" in after.certificate["space"]


def test_other_slicings_are_looked_for_where_the_plan_was_made() -> None:
    def most_dims(made: Plan) -> int:
        others = [decision.runner_up.slicing for decision in explain(made).decisions if decision.runner_up]
        return max(len({part[0] for part in other.split()}) for other in others)

    assert most_dims(plan("alexnet", "p100-4x4", batch=512)) > 1
    assert most_dims(plan("alexnet", "p100-4x4", batch=512, dims_per_layer=1)) == 1


def test_a_runner_up_keeps_the_pins() -> None:
    free, pinned = (plan(small_cnn(2), machine(2, 2), forbid=forbid) for forbid in ([], ["conv*=F"]))
    before, after = (explain(made, layer="conv0").decisions[0].runner_up for made in (free, pinned))
    assert before is not None
    assert after is not None
    assert "F" in before.slicing
    assert "F" not in after.slicing


def test_what_is_proven_is_of_the_optimum_and_what_you_get_is_named() -> None:
    made = plan(small_cnn(8), machine(2, 2))
    proof = made.certificate
    assert proof["returned"] == proof["rescored"]["returned"]
    if proof["returned"] == "the additive optimum":
        assert made.predicted["additive_s"] == pytest.approx(proof["optimum_s"])
    smallest = plan(small_cnn(8), machine(2, 2), objective="memory")
    assert smallest.certificate["returned"] == "the additive optimum"
    assert "rescored" not in smallest.certificate


def test_a_plan_that_is_not_the_optimum_says_so() -> None:
    made = plan(residual_net(16), machine(2, 2))
    proof = made.certificate
    assert proof["returned"] == "data"
    assert proof["optimal"]  # of the optimum, not of this plan
    assert made.predicted.additive_s > proof["optimum_s"]
    assert made.predicted.simulated_s < proof["rescored"]["optimum_simulated_s"]
