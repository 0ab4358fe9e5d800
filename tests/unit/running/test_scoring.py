"""Scores of predictions, by hand."""

from dataclasses import replace

import pytest

from slicewise.running.scoring import Bar, Ranking, Validation, accuracy, null_accuracy, regret, spearman


def bar(strategy: str, predicted_s: float, measured_s: float, *, spread: float = 0.0, cost: str = "calibrated") -> Bar:
    return Bar(
        model="net",
        strategy=strategy,
        ranks=2,
        cost_model=cost,
        predicted_s=predicted_s,
        measured_s=measured_s,
        spread=spread,
        batch=8,
        terms={"compute": (predicted_s - 0.1, measured_s - 0.5), "halo": (0.1, 0.5)},
        memory_bytes=(80.0, 100.0),
    )


def test_a_machine_that_has_become_slower_is_no_models_fault() -> None:
    slow = replace(bar("data", 1.0, 1.45), drift=1.5)  # 0.9 s of it compute
    assert slow.accuracy == pytest.approx(1 - 0.45 / 1.45)
    assert slow.steady_accuracy == pytest.approx(1.0)
    assert bar("data", 1.0, 1.45).steady_accuracy == bar("data", 1.0, 1.45).accuracy  # nobody looked
    told = Validation(bars=(slow, bar("filter", 1.0, 1.0))).to_dict()
    assert told["drift"] == 1.5
    assert told["accuracy"]["steady"] == pytest.approx(1.0)


def test_accuracy_is_what_is_left_of_one_and_never_negative() -> None:
    assert accuracy(0.9, 1.0) == pytest.approx(0.9)
    assert accuracy(1.1, 1.0) == pytest.approx(0.9)
    assert accuracy(3.0, 1.0) == 0.0


def test_a_report_has_the_fields_that_others_read() -> None:
    bars = (bar("data", 1.0, 2.0), bar("filter", 4.0, 4.0), bar("data", 2.0, 2.0, cost="measured"))
    ranking = Ranking(
        model="net", ranks=2, cost_model="measured", predicted_s=(1.0, 2.0, 3.0), measured_s=(2.0, 1.0, 3.0)
    )
    told = Validation(bars=bars, rankings=(ranking,)).to_dict()
    fields = {"model", "strategy", "ranks", "cost_model", "predicted_s", "measured_s", "accuracy", "spread"}
    assert fields <= told["bars"][0].keys()
    assert told["accuracy"]["all"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert told["accuracy"]["by_strategy"] == {"data": pytest.approx(0.75), "filter": pytest.approx(1.0)}
    assert told["accuracy"]["by_model"]["net"] == told["accuracy"]["all"]
    assert told["accuracy"]["by_cost_model"]["measured"]["all"] == 1.0
    assert told["accuracy"]["communication"] == pytest.approx(0.2)
    assert told["memory_accuracy"] == pytest.approx(0.8)
    assert told["spearman"] == pytest.approx(0.5)
    assert told["regret"] == pytest.approx(1.0)
    assert told["most_wrong"]["term"] == "compute"


def test_the_null_predictor_knows_the_network_but_no_strategy() -> None:
    bars = [bar("data", 1.0, 2.0), bar("filter", 1.0, 4.0), bar("data", 1.0, 2.0, cost="measured")]
    assert null_accuracy(bars) == pytest.approx((0.0 + 0.5) / 2)
    assert null_accuracy(bars[:1]) is None


def test_a_bar_whose_runs_differ_by_more_than_its_error_is_doubtful() -> None:
    assert bar("data", 1.0, 1.1, spread=0.2).doubtful
    assert not bar("data", 1.0, 1.1, spread=0.05).doubtful


def test_orders_are_compared_with_ties_shared() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 1, 2, 2], [5, 5, 7, 7]) == pytest.approx(1.0)
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert regret([3.0, 1.0, 2.0], [5.0, 6.0, 4.0]) == pytest.approx(0.5)
