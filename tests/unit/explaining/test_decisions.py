"""Why a plan is what it is."""

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel
from slicewise.errors import RequestError
from slicewise.explaining.decisions import explain, explain_slicings
from slicewise.graph.sources import load_graph
from slicewise.partition.legal import Space
from slicewise.planning import plan
from slicewise.search.baselines import baseline_slicings, data
from slicewise.search.optimum import best_slicings
from tests.builders import machine, small_cnn


@pytest.fixture
def model() -> CostModel:
    return AnalyticModel(small_cnn(batch=4), machine(2))


def test_data_parallelism_saves_nothing_against_itself(model: CostModel) -> None:
    explanation = explain_slicings(model, data(model))
    assert explanation.reference == "data"
    assert explanation.saved_s == 0
    assert all(decision.reference is None for decision in explanation.decisions)


def test_stretches_cover_the_network_and_no_choice_of_the_best_plan_is_worse_than_another(model: CostModel) -> None:
    best, _ = best_slicings(model, Space(), baseline_slicings(model)[0])
    for per_layer in (False, True):
        decisions = explain_slicings(model, best, per_layer=per_layer).decisions
        assert [name for decision in decisions for name in decision.layers] == [layer.name for layer in model.graph]
        for decision in decisions:
            for other in (decision.reference, decision.runner_up):
                assert other is None or other.cost.total_s >= decision.cost.total_s * (1 - 1e-9)


def test_every_layer_has_a_row_of_its_own_when_asked(model: CostModel) -> None:
    decisions = explain_slicings(model, data(model), per_layer=True).decisions
    assert [decision.layers for decision in decisions] == [(layer.name,) for layer in model.graph]
    assert len(explain_slicings(model, data(model)).decisions) < len(decisions)


def test_without_enough_samples_the_best_other_strategy_is_the_reference() -> None:
    model = AnalyticModel(small_cnn(batch=1), machine(2))
    found, _ = baseline_slicings(model)
    explanation = explain_slicings(model, found["spatial"])
    assert explanation.reference in found
    assert explanation.reason == "1 samples do not reach 2 devices"


def test_a_layer_that_is_not_there_is_told_with_those_that_are(model: CostModel) -> None:
    with pytest.raises(RequestError, match="no layer is called 'fc9'; there is input0, conv0"):
        explain_slicings(model, data(model), layer="fc9")


def test_what_does_not_fit_is_no_runner_up(model: CostModel) -> None:
    tight = explain_slicings(model, data(model), layer="conv0", memory_limit_bytes=0)
    loose = explain_slicings(model, data(model), layer="conv0")
    (kept,), (free,) = tight.decisions, loose.decisions
    assert free.runner_up is not None
    assert kept.runner_up is not None
    assert free.runner_up.cost.memory_bytes > kept.cost.memory_bytes >= kept.runner_up.cost.memory_bytes


def test_alexnet_is_told_in_sentences() -> None:
    """By hand: classifier.1 has 9216 x 4096 weights, 4096 biases; a ring of 16 sends them 2 * 15 times, pairs twice."""
    made = plan(load_graph("alexnet"), "p100-4x4", batch=512)
    told = str(explain(made, layer="classifier.1"))
    assert "classifier.1 is sliced by sample, filter and input channel (N2@inter F2@inter C4@intra)" in told
    assert f"{(2 * 15 - 2) * 4 * (9216 * 4096 + 4096) / 1e9:.2f} GB of gradient all-reduce" in told
    assert "a step would be " in told
    assert "20.9 ms less work, worth 20.3 ms of the step; the rest hides behind compute." in told
    whole = explain(made)
    assert whole._repr_html_().count("<li>") == len(whole.decisions)
