import pytest

from slicewise.cost.stage import SCHEDULES, StageCost, in_flight
from slicewise.simulate.schedules import ScheduleTimeline, simulate_schedule
from tests.builders import stage_cost


def stage(forward_s: float = 1.0, backward_s: float = 2.0, link_s: float = 0.0, returns: bool = True) -> StageCost:
    return stage_cost(
        forward_s=forward_s,
        backward_s=backward_s,
        output_s=link_s,
        gradient_s=link_s if returns else None,
        weight_bytes=100,
        kept_bytes=10,
        received_bytes=3,
        sent_bytes=4,
        returned_bytes=4,
        transient_bytes=1,
    )


def row(timeline: ScheduleTimeline, number: int) -> str:
    """One letter and number per second, as schedules are drawn."""
    turns = [turn for turn in timeline.turns if turn.stage == number]
    drawn = ["."] * round(max(turn.stop_s for turn in timeline.turns))
    for turn in turns:
        for second in range(round(turn.start_s), round(turn.stop_s)):
            drawn[second] = turn.name
    return " ".join(drawn)


def test_gpipe_goes_all_forward_then_all_backward() -> None:
    timeline = simulate_schedule([stage(1, 1), stage(1, 1)], "gpipe", 3)
    assert row(timeline, 0) == "F0 F1 F2 . . B0 B1 B2"
    assert row(timeline, 1) == ". F0 F1 F2 B0 B1 B2 ."
    assert timeline.finished_s == (8, 7)


def test_1f1b_takes_turns() -> None:
    timeline = simulate_schedule([stage(1, 1), stage(1, 1)], "1f1b", 4)
    assert row(timeline, 0) == "F0 F1 . B0 F2 B1 F3 B2 . B3"
    assert row(timeline, 1) == ". F0 B0 F1 B1 F2 B2 F3 B3 ."


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (2, 5), (3, 3), (4, 8)])
def test_equal_stages_take_micro_batches_plus_stages_minus_one_turns(
    schedule: str, stages: int, micro_batches: int
) -> None:
    timeline = simulate_schedule([stage()] * stages, schedule, micro_batches)
    assert max(timeline.finished_s) == pytest.approx((micro_batches + stages - 1) * 3.0)


def test_a_transfer_starts_when_both_sides_have_come_to_it() -> None:
    """The receiver asks for the second micro-batch once it is done with the first; the sender does not wait."""
    timeline = simulate_schedule([stage(1, 1), stage(3, 1, link_s=2)], "gpipe", 2)
    starts = {(turn.stage, turn.name): turn.start_s for turn in timeline.turns}
    assert starts[0, "F1"] == 1
    assert starts[1, "F0"] == 1 + 2
    assert starts[1, "F1"] == 6 + 2


def test_a_stage_that_gets_no_gradient_does_not_wait_for_one() -> None:
    frozen = simulate_schedule([stage(1, 0, returns=False), stage(1, 5)], "1f1b", 2)
    assert frozen.finished_s[0] < frozen.finished_s[1]


def test_gpipe_keeps_every_micro_batch_and_1f1b_as_many_as_stages_follow() -> None:
    assert [in_flight("gpipe", 8, 4, number) for number in range(4)] == [8, 8, 8, 8]
    assert [in_flight("1f1b", 8, 4, number) for number in range(4)] == [4, 3, 2, 1]


def test_memory_counts_what_is_in_flight_and_a_buffer_per_micro_batch() -> None:
    assert stage().memory_bytes(8, 3) == 100 + 3 * (10 + 4) + 8 * (3 + 4) + 4 + 1
