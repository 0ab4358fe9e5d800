"""What the page asks and gets, without the web."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli.main import parser
from slicewise.errors import RequestError
from slicewise.planning import plan as made
from slicewise.planning.alternatives import alternatives
from slicewise.planning.predicting import predict
from slicewise.plans.plan import Plan
from slicewise.strategies.projecting import oracle
from slicewise.studio.answers import Answers

FORMATS = Path(__file__).parents[2] / "formats" / "v1"
SETTING = {"model": "lenet5", "cluster": "p100-4x4", "devices": 4, "batch": 64}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return made("lenet5", "p100-4x4", devices=4, batch=64, strategy="data")


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


def sent(answers: Answers, plan: Plan, **more: Any) -> dict[str, Any]:
    wanted = answers.wanted_plan({"setting": SETTING, "strategy": "data"})
    view: dict[str, Any] = wanted.shown(plan)
    return {"setting": SETTING, "slicings": view["slicings"], **more}


def test_the_strategies_are_the_oracles(answers: Answers) -> None:
    rows = answers.project({"setting": SETTING})["rows"]
    table = oracle("lenet5", "p100-4x4", devices=[4], batch=64, batchnorm="exact")
    assert rows == [row.to_dict() for row in table]


def test_the_same_samples_per_device_at_every_count(answers: Answers) -> None:
    rows = answers.scaling({"setting": SETTING, "weak": True})["rows"]
    assert {row["batch"] / row["devices"] for row in rows} == {16.0}


def test_a_plan_is_shown_with_its_own_price(answers: Answers, plan: Plan) -> None:
    view = answers.price(sent(answers, plan))
    assert view["predicted"] == predict(plan).to_dict()
    assert [layer["name"] for layer in view["layers"]] == list(plan.slicings)


def test_a_layers_alternatives_are_the_packages(answers: Answers, plan: Plan) -> None:
    shown = answers.layer(sent(answers, plan, layer="features.0"))["alternatives"]
    expected = alternatives(plan, "features.0")
    assert [row["told"] for row in shown] == [row.told for row in expected]
    assert [row["iteration_s"] for row in shown] == pytest.approx([row.iteration_s for row in expected])


def test_a_change_costs_what_its_alternative_was_priced_at(answers: Answers, plan: Plan) -> None:
    other = next(row for row in answers.layer(sent(answers, plan, layer="features.0"))["alternatives"][3:])
    changed = answers.change(sent(answers, plan, layer="features.0", to=other["letters"]))
    assert changed["predicted"]["iteration_s"] == pytest.approx(other["iteration_s"])
    before = answers.price(sent(answers, plan))["predicted"]["additive_s"]
    paid = sum(row["after_s"] - row["before_s"] for row in changed["paid"])
    assert changed["predicted"]["additive_s"] - before == pytest.approx(paid)


def test_a_change_that_is_not_legal_is_refused(answers: Answers, plan: Plan) -> None:
    with pytest.raises(RequestError, match=r"features\.0"):
        answers.change(sent(answers, plan, layer="features.0", to="DD"))
    with pytest.raises(RequestError, match="is no slicing"):
        answers.change(sent(answers, plan, layer="features.0", to="ZZ"))


def test_an_exported_plan_is_one_that_the_package_reads(answers: Answers, plan: Plan) -> None:
    file = answers.export(lambda _: plan, sent(answers, plan, form="plan", strategy="data"))
    read = Plan.from_dict(json.loads(file["text"]), file["name"])
    assert read.slicings == plan.slicings


def test_edited_links_are_in_the_exported_cluster(answers: Answers) -> None:
    setting = {**SETTING, "tiers": {"intra": {"bytes_per_s": 5e9}}, "memory_bytes": 8_000_000_000}
    file = answers.export(lambda _: None, {"setting": setting, "form": "cluster"})
    added = answers.upload("mine.toml", file["text"].encode())
    assert added["cluster"]["memory_bytes"] == 8_000_000_000
    assert [tier["bytes_per_s"] for tier in added["cluster"]["tiers"] if tier["name"] == "intra"] == [5e9]


def test_commands_parse_and_say_what_was_asked(answers: Answers) -> None:

    rows = answers.commands({"setting": {**SETTING, "dtype": "fp32", "recompute": True}, "strategy": "data"})[
        "commands"
    ]
    typed = [row["command"] for row in rows if row["command"].startswith("slicewise ")]
    options = parser().parse_args(shlex.split(typed[0])[1:])
    assert (options.model, options.devices, options.batch, options.recompute) == ("lenet5", 4, 64, True)
    for command in typed:
        parser().parse_args(shlex.split(command)[1:])


def test_two_plans_are_compared_layer_by_layer(answers: Answers, plan: Plan) -> None:
    one = sent(answers, plan)
    other = answers.change({**one, "layer": "features.0", "to": "--"})
    found = answers.compare({"before": one, "after": {**one, "slicings": other["slicings"]}})
    assert [change["layers"] for change in found["changes"]] == [("features.0",)]
    assert found["differences"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model": "nobody"}, "unknown network"),
        ({"model": "os:system"}, "unknown network"),
        ({"model": "/etc/passwd.json"}, "unknown network"),
        ({"cluster": "/etc/other.toml"}, "was not uploaded"),
        ({"devices": 0}, "devices"),
        ({"devices": 6}, "do not fill whole groups"),
        ({"batch": 10**9}, "batch"),
        ({"dtype": "fp8"}, "dtype"),
        ({"tiers": {"moon": {"bytes_per_s": 1.0}}}, "tier"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(answers: Answers, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        answers.project({"setting": {**SETTING, **changed}})
    assert "\n" not in str(refused.value)


def test_the_planners_buckets_are_those_of_the_plan_that_is_shown(answers: Answers) -> None:
    """The page shows the number that `slicewise plan` prints, and every price beside it is of the same buckets."""
    asked = {"model": "alexnet", "cluster": "p100-4x4", "devices": 4, "batch": 64}
    wanted = answers.wanted_plan({"setting": asked})
    found: Plan = wanted.job(lambda _: None)
    assert found.training.bucket_bytes < 25 * 2**20
    assert found.predicted == made("alexnet", "p100-4x4", devices=4, batch=64).predicted
    view = wanted.shown(found)
    assert view["predicted"] == found.predicted.to_dict()
    assert view["bucket_bytes"] == found.training.bucket_bytes
    question = {"setting": asked, "slicings": view["slicings"], "bucket_bytes": view["bucket_bytes"]}
    assert answers.price(question)["predicted"] == view["predicted"]
    now = next(row for row in answers.layer({**question, "layer": "features.0"})["alternatives"] if row["current"])
    assert now["iteration_s"] == pytest.approx(view["predicted"]["iteration_s"])
    file = answers.export(lambda _: found, {**question, "form": "plan"})
    assert Plan.from_dict(json.loads(file["text"]), "plan.json").certificate["optimal"]
    typed = answers.commands({"setting": asked})["commands"]
    assert not any("--bucket" in row["command"] for row in typed)
    typed = answers.commands({"setting": {**asked, "bucket_bytes": 4 * 2**20}})["commands"]
    assert "--bucket 4MiB" in typed[0]["command"]


def test_traces_are_drawn_below_the_predicted_step_each_file_a_rank(answers: Answers, plan: Plan) -> None:
    files = [FORMATS / f"profiler-rank{rank}.json.gz" for rank in (0, 1)]
    added = [answers.upload(file.name, file.read_bytes()) for file in files]
    assert [one["kind"] for one in added] == ["trace", "trace"]
    names = [one["name"] for one in added]
    drawn = answers.figure(lambda _: None, sent(answers, plan, form="timeline", traces=names))
    rows = [f"measured, device {rank}: compute" for rank in (0, 1)]
    assert all(row in drawn["svg"] for row in ["predicted, device 0: compute", *rows])
    assert drawn["predicted_s"] == plan.predicted.iteration_s
    assert drawn["measured_s"] > 0
    report = answers.wanted_report(lambda _: None, sent(answers, plan, traces=names)).job(lambda _: None)
    assert rows[1] in report["text"]
    with pytest.raises(RequestError, match="upload it again"):
        answers.figure(lambda _: None, sent(answers, plan, form="timeline", traces=["upload:0/none.json"]))


def test_an_uploaded_pipeline_is_shown_drawn_and_exported(answers: Answers) -> None:
    content = (FORMATS / "plan-pipeline.json").read_bytes()
    added = answers.upload("plan.json", content)
    assert added["plan"]["pipeline"]["stages"]
    question = {"setting": added["plan"]["setting"], "strategy": "pipeline"}
    for form in ("slicings", "timeline"):
        assert answers.figure(lambda _: None, {**question, "form": form})["svg"].startswith("<svg")
    with pytest.raises(RequestError, match="unknown figure 'network'; choose from slicings, timeline"):
        answers.figure(lambda _: None, {**question, "form": "network"})
    file = answers.export(lambda _: None, {**question, "form": "plan"})
    assert Plan.from_dict(json.loads(file["text"]), "plan.json").pipeline is not None
    gone = {**question, "setting": SETTING, "form": "timeline"}
    with pytest.raises(RequestError, match="open it again"):
        answers.figure(lambda _: None, gone)
