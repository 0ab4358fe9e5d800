"""Options of machine time, between fast and cheap."""

from math import prod

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


def test_an_option_is_good_only_if_its_whole_range_keeps_the_deadline() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[8], batch_per_device=8, samples=1000)
    (plain,) = options_of(table, [8], epochs=3)
    for hours, good, chance in (
        (plain.hours, False, 0.5),
        (plain.high_hours, True, 0.95),
        (plain.low_hours, False, 0.05),
    ):
        (option,) = options_of(table, [8], epochs=3, deadline_h=hours * (1 + 1e-9))
        assert option.good is good
        assert option.deadline_chance == pytest.approx(chance, abs=0.001)
    assert plain.good
    assert plain.deadline_chance is None


def test_storage_must_deliver_what_all_devices_read() -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[8], batch_per_device=8, samples=1000)
    (option,) = options_of(table, [8], epochs=1)
    sample_bytes = 4 * prod(small_cnn().inputs[0].shape[1:])
    assert option.input_bytes_per_s == pytest.approx(option.row.samples_per_s * sample_bytes)


@pytest.mark.parametrize(
    ("samples", "batch", "told"),
    [
        (1_281_167, 256, []),
        (1_281_167, 131_072, ["a batch of 131,072: nobody has shown training with more than 65,536"]),
        (1000, 512, ["a batch of 512: an epoch is 2 steps"]),
    ],
)
def test_batches_that_nobody_trains_with_are_warned_of(samples: int, batch: int, told: list[str]) -> None:
    table = oracle(small_cnn(), machine(4, 4), devices=[16], batch=batch, samples=samples, memory_limit="1TB")
    (option,) = options_of(table, [16], epochs=1)
    assert option.warnings[:1] == told
