"""Both engines answer the same questions; what differs between them is said by themselves."""

from inspect import isabstract

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import PLAIN
from slicewise.strategies.engines import ENGINES, Engine
from slicewise.strategy import STRATEGIES, Form
from tests.builders import small_cnn


def made(name: str) -> Engine:
    return ENGINES[name](graph=small_cnn(batch=8), cluster=load_cluster("p100-4x4"), training=PLAIN)


def test_an_engine_is_abstract_or_final() -> None:
    assert isabstract(Engine)
    for engine in ENGINES.values():
        assert not isabstract(engine)
        assert getattr(engine, "__final__", False)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_prices_one_device_under_every_strategy_that_allows_it(name: str) -> None:
    engine = made(name)
    engine.prepare([(1, 8)])
    whole = [strategy for strategy, facts in STRATEGIES.items() if facts.form is Form.WHOLE]
    seconds = {engine.terms(strategy, 1, 8).iteration_s for strategy in [*whole, "data"]}
    assert len(seconds) == 1
    assert engine.on(engine.cluster).terms("data", 1, 8).iteration_s in seconds


def test_only_plans_are_compared_with_plans_and_take_time_that_is_told() -> None:
    closed, planned = made("paradl"), made("slicewise")
    assert not closed.comparable_with_plans
    assert planned.comparable_with_plans
    assert closed.progress_text(4) is None
    assert planned.progress_text(4) == "pricing plans for 4 devices"
    assert closed.furthest_devices > planned.furthest_devices


def test_closed_forms_thin_freely_until_a_fit_says_otherwise() -> None:
    assert made("paradl").thins_freely
    assert not made("slicewise").thins_freely
    assert not made("paradl").on(load_cluster("abci-v100")).thins_freely
