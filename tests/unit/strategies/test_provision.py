"""Options of machine time, between fast and cheap."""

import pytest

from slicewise.strategies.options import Option, frontier, options_of, within
from slicewise.strategies.projecting import oracle
from tests.builders import machine, small_cnn

COUNTS = [1, 2, 4, 6, 8, 16]


def options(price: float | None = 2.0) -> list[Option]:
    table = oracle(small_cnn(), machine(4, 4), devices=COUNTS, batch_per_device=8, samples=1000)
    return options_of(table, COUNTS, epochs=3, price=price)


def test_hours_nodes_and_cost_of_an_option() -> None:
    found = {option.row.devices: option for option in options()}
    six = found[6]
    hours = 3 * -(-1000 // 48) * six.row.iteration_s / 3600
    assert six.hours == pytest.approx(hours)
    assert six.nodes == 2
    assert six.node_hours == pytest.approx(2 * hours)
    assert six.device_hours == pytest.approx(8 * hours)  # whole nodes
    assert six.cost == pytest.approx(16 * hours)
    assert found[2].device_hours == pytest.approx(2 * found[2].hours)  # a part of one node
    assert six.low_hours < six.hours < six.high_hours


def test_every_option_is_the_best_of_its_count() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=COUNTS, batch_per_device=8, samples=1000)
    for option in options():
        assert option.row.strategy == table.best(option.row.devices).strategy  # type: ignore[union-attr]


def test_the_frontier_has_nothing_that_another_beats_in_both() -> None:
    every = options()
    kept = frontier(every)
    for option in every:
        beaten = [o for o in every if o.hours < option.hours and o.device_hours < option.device_hours]
        assert not (beaten and option in kept)
        if not beaten and not any(
            (o.hours, o.device_hours) != (option.hours, option.device_hours)
            and o.hours <= option.hours
            and o.device_hours <= option.device_hours
            for o in every
        ):
            assert option in kept


def test_deadline_and_budget_leave_what_keeps_them() -> None:
    every = options()
    middle = sorted(option.hours for option in every)[len(every) // 2]
    assert {o.row.devices for o in within(every, deadline_h=middle, device_hours=None)} == {
        o.row.devices for o in every if o.hours <= middle
    }
    assert within(every, deadline_h=None, device_hours=0) == []
    assert options(price=None)[0].to_dict()["cost"] is None
