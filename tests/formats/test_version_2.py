"""Files of version 2, never to be written anew: plans that carry their network and their machine."""

import json
from pathlib import Path

import pytest

from slicewise.explaining.what_if import what_if
from slicewise.planning import predicted_of
from slicewise.plans.plan import Plan

V2 = Path(__file__).parent / "v2"
PLANS = ["plan.json", "plan-pipeline.json"]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_checked_and_priced_by_itself(name: str) -> None:
    assert json.loads((V2 / name).read_text())["schema_version"] == 2
    loaded = Plan.load(V2 / name)
    assert loaded.graph is not None
    assert loaded.machine is not None
    loaded.check(loaded.sized(loaded.graph), loaded.machine.mesh)
    assert predicted_of(loaded, loaded.graph, loaded.machine)["iteration_s"] > 0
    again = Plan.from_dict(json.loads(loaded.to_json()), name)
    assert (again.slicings, again.predicted, again.pipeline) == (loaded.slicings, loaded.predicted, loaded.pipeline)


def test_a_plan_is_made_again_for_another_batch() -> None:
    assert what_if(Plan.load(V2 / "plan.json"), ["batch=32"]).after.batch == 32
