"""Why a plan is what it is."""

import pytest

from slicewise.cost.model import CostModel
from slicewise.explaining import explain
from slicewise.partition.legal import Space
from slicewise.search.baselines import data
from slicewise.search.planner import baseline_slicings, best_slicings
from tests.builders import machine, small_cnn


@pytest.fixture
def model() -> CostModel:
    return CostModel(small_cnn(batch=4), machine(2))


def test_data_parallelism_saves_nothing_against_itself(model: CostModel) -> None:
    explanation = explain(model, data(model))
    assert explanation.reference == "data"
    assert explanation.total.saved_s == 0
    assert explanation.total.saved_bytes == 0


def test_the_stretches_add_up_to_the_plan(model: CostModel) -> None:
    best, _ = best_slicings(model, Space(), baseline_slicings(model)[0])
    for per_layer in (False, True):
        explanation = explain(model, best, per_layer=per_layer)
        names = [name for stretch in explanation.stretches for name in stretch.layers]
        assert names == [layer.name for layer in model.graph]
        assert explanation.total.cost.total_s == pytest.approx(
            sum(cost.total_s for cost in model.plan_costs(best).values())
        )
        assert explanation.total.saved_s >= 0


def test_every_layer_has_a_row_of_its_own_when_asked(model: CostModel) -> None:
    rows = explain(model, data(model), per_layer=True).stretches
    assert [row.layers for row in rows] == [(layer.name,) for layer in model.graph]
    assert len(explain(model, data(model)).stretches) < len(rows)


def test_without_enough_samples_the_best_other_strategy_is_the_reference() -> None:
    model = CostModel(small_cnn(batch=1), machine(2))
    found, _ = baseline_slicings(model)
    explanation = explain(model, found["spatial"])
    assert explanation.reference in found
    assert explanation.reason == "1 samples do not reach 2 devices"
