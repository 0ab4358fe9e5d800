"""Whoever tells seconds or bytes by term knows every term of the list."""

from dataclasses import fields
from functools import cache
from typing import Any

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost, LayerSeconds
from slicewise.cost.prediction import Prediction
from slicewise.cost.recost import recost_terms
from slicewise.diagnosis.expectation import expectation_of
from slicewise.diagnosis.readers.run_json import StepsFields
from slicewise.explaining.words import balance
from slicewise.planning import pipeline_plan, plan
from slicewise.plans.plan import Plan
from slicewise.report.explanations import reason
from slicewise.report.terminal import PREDICTED, prediction_cells
from slicewise.strategies.engines import of_prediction
from slicewise.strategies.projecting import oracle
from slicewise.terms import LAYER_TERMS, MOVING, MOVING_GROUPS, TERMS, Group, Nature, Term
from slicewise.timelines.event import LANES
from tests.builders import machine, residual_net, small_cnn

EACH = pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
OF_LAYERS = pytest.mark.parametrize("term", LAYER_TERMS, ids=lambda term: term.name)


@cache
def _made() -> Plan:
    return plan(residual_net(8), machine(2, 2))


@cache
def _pipeline() -> Plan:
    return pipeline_plan(small_cnn(8), machine(2), batch=8)


def _cost(figures: dict[str, Any]) -> Cost:
    return Cost(**figures)


def test_every_term_has_a_name_of_its_own() -> None:
    names = [term.name for term in TERMS]
    assert len(set(names)) == len(names)
    assert {term.exposed for term in TERMS if term.exposed} <= {term.name for term in TERMS}


@OF_LAYERS
def test_a_cost_has_every_term_of_layers(term: Term) -> None:
    (field, *others) = [f"{part}_s" for part in term.parts or (term.name,)]
    cost = _cost({field: 2.0})
    assert cost.seconds(term.name) == cost.total_s == 2.0
    assert cost.communication_s == (2.0 if term.nature is Nature.COMMUNICATION else 0.0)
    assert {field, *others, f"{term.name}_s"} <= cost.to_dict().keys()
    if term.name in MOVING:
        sent = _cost({f"{term.name}_bytes": 3})
        assert (sent.bytes_moved, sent.sent_bytes[term.name]) == (3, 3)


def test_a_cost_and_the_tables_have_no_other_terms() -> None:
    parts = {f"{part}_s" for term in LAYER_TERMS for part in term.parts or (term.name,)}
    assert {item.name for item in fields(Cost) if item.name.endswith("_s")} == parts
    own = {item.name for item in fields(LayerSeconds) if item.name.endswith("_s")}
    assert own == parts - {"transfer_s"}  # which belongs to edges


@EACH
def test_a_plans_file_has_every_term(term: Term) -> None:
    rows = [_pipeline().to_dict()["predicted"]]
    if term.name != "bubble":
        document = _made().to_dict()
        rows += [document["predicted"], *(row for row in document["baselines"].values() if row["feasible"])]
    assert len(rows) > 1 or term.name == "bubble"
    for row in rows:
        assert row[f"{term.name}_s"] >= 0
        assert f"{term.name}_bytes" in row or term.nature is not Nature.COMMUNICATION


@OF_LAYERS
def test_the_oracle_adds_every_term_to_its_group(term: Term) -> None:
    nothing = dict.fromkeys((item.name for item in LAYER_TERMS), 0.0)
    found = of_prediction(Prediction(iteration_s=2.0, seconds=nothing | {term.name: 2.0}, peak_memory_bytes=1))
    assert {group: found.seconds(group) for group in Group if found.seconds(group)} == {term.group: 2.0}


def test_rows_of_the_oracle_have_every_group() -> None:
    table = oracle(small_cnn(), machine(2, 2), devices=[1, 4], batch=8)
    rows = [row for row in table.to_dict()["rows"] if row["communication"]]
    assert rows
    assert all(list(row["communication"]) == [f"{group}_s" for group in MOVING_GROUPS] for row in rows)
    assert all(f"{group}_s" in table.to_csv().split("\n")[0] for group in MOVING_GROUPS)


@pytest.mark.parametrize("engine", ["paradl", "slicewise"])
def test_every_row_of_the_oracle_has_a_prediction(engine: str) -> None:
    for row in oracle(small_cnn(), machine(2, 2), devices=[1, 2, 4], batch=8, engine=engine):
        if row.terms is None:
            assert row.prediction == Prediction()
            continue
        assert row.prediction.iteration_s == pytest.approx(row.iteration_s)
        assert (row.prediction.low_s, row.prediction.high_s) == pytest.approx((row.low_s, row.high_s))
        assert row.prediction.samples_per_s == pytest.approx(row.samples_per_s)
        assert Prediction.from_dict(row.prediction.to_dict()) == row.prediction
        if engine == "paradl":
            assert sum(row.prediction.waited.values()) == pytest.approx(row.iteration_s)


@OF_LAYERS
def test_tables_and_sentences_tell_every_term(term: Term) -> None:
    field = f"{(term.parts or (term.name,))[0]}_s"
    assert term.told in balance(_cost({field: 1.0})) or term.nature is Nature.COMMUNICATION
    assert reason(_cost({field: 1.0})) == f"+1.00 s {term.name}"
    assert term.name in StepsFields.__struct_fields__
    if term.nature is Nature.COMMUNICATION:
        assert term.told in balance(_cost({field: 1.0, f"{term.name}_bytes": 1}))
        assert term.name in LANES
        cells = prediction_cells({**_made().predicted, "iteration_s": 100.0, f"{term.waited}_s": 7.0})
        assert cells[PREDICTED.index(term.name)] == "7.00 s"


def test_diagnosis_holds_every_term_against_what_was_measured() -> None:
    graph, cluster = residual_net(8), machine(2, 2)
    projected = expectation_of(_made(), graph, cluster)
    assert list(projected.terms) == [term.name for term in LAYER_TERMS]
    assert projected.terms == {term.name: _made().predicted[f"{term.waited}_s"] for term in LAYER_TERMS}
    assert projected.to_dict().keys() >= {f"{term.name}_s" for term in LAYER_TERMS}


@OF_LAYERS
def test_the_second_evaluator_knows_every_term(term: Term) -> None:
    model = AnalyticModel(residual_net(8), machine(2, 2))
    again = recost_terms(model.graph, model.cluster, _made().slicings, model.training)
    total = sum(again[f"{part}_s"] for part in term.parts or (term.name,))
    assert _made().predicted.seconds[term.name] == pytest.approx(total, abs=1e-15)
