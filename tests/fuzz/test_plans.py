"""Plans: read, and what can be read is checked, priced and explained."""

import json
from pathlib import Path

from slicewise.explaining.decisions import explain
from slicewise.planning import pipeline_plan, plan, predicted_of
from slicewise.plans.plan import Plan
from tests.builders import machine, residual_net, small_cnn
from tests.fuzz.campaign import campaign, sizes
from tests.fuzz.mutations import Mutant, as_json, damaged, mutated

V1 = Path(__file__).parent.parent / "formats" / "v1"
VERSION_1 = [json.loads((V1 / f"{name}.json").read_text()) for name in ("plan", "plan-data", "plan-pipeline")]
PAIR = machine(2)
CARRYING = [
    json.loads(made.to_json())
    for made in (plan(small_cnn(), PAIR), plan(residual_net(), PAIR), pipeline_plan(small_cnn(), PAIR, batch=8))
]


def priced(mutant: Mutant) -> None:
    loaded = Plan.from_dict(json.loads(json.dumps(mutant.document)), "plan.json")
    assert Plan.from_dict(json.loads(loaded.to_json()), "again.json").to_dict() == loaded.to_dict()
    graph, machine = loaded.network(), loaded.hardware()
    loaded.check(loaded.sized(graph), machine.mesh)
    assert predicted_of(loaded, graph, machine)["iteration_s"] > 0


def explained(mutant: Mutant) -> None:
    explain(Plan.from_dict(json.loads(json.dumps(mutant.document)), "plan.json"))


@sizes(400, 14_000, parts=2)
def test_a_mutated_plan_of_version_1_is_refused_or_priced(inputs: int, begin: int) -> None:
    campaign(inputs, begin, mutated(VERSION_1), priced)


@sizes(400, 14_000, parts=2)
def test_a_mutated_plan_that_carries_its_network_is_refused_or_priced(inputs: int, begin: int) -> None:
    campaign(inputs, begin, mutated(CARRYING), priced)


@sizes(60, 2_000)
def test_a_mutated_plan_is_refused_or_explained(inputs: int, begin: int) -> None:
    campaign(inputs, begin, mutated([*VERSION_1[1:], *CARRYING]), explained)


@sizes(100, 3_000)
def test_a_damaged_plan_file_is_refused_or_read(inputs: int, begin: int, tmp_path: Path) -> None:
    def read(content: bytes) -> None:
        path = tmp_path / "plan.json"
        path.write_bytes(content)
        Plan.load(path)

    campaign(inputs, begin, damaged([as_json(document) for document in (*VERSION_1, *CARRYING)]), read)
