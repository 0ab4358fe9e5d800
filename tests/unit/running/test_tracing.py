"""One step of one rank as events."""

from slicewise.running.measure import StepTime
from slicewise.running.tracing import step_events
from slicewise.runtime.clock import Clock, Span
from slicewise.timelines.event import Event

CLOCK = Clock(
    layers=True,
    spans=[Span("halo", "conv", 1.0, 2.0), Span("transfer", "fc", 5.0, 6.0), Span("sync", "w", 8.5, 9.0)],
    kernels=[Span("forward", "conv", 0.5, 3.0)],
    flights=[Span("sync", "w", 7.0, 8.9)],
    marks=[(4.0, "fc"), (7.0, "conv")],
    backward_start_s=3.5,
)
STEP = StepTime(start_s=0.0, backward_stop_s=9.5, stop_s=10.0, clock=CLOCK, loss=1.0)


def _drawn(events: list[Event], lane: str) -> list[tuple[str, float, float]]:
    return sorted(((e.name, e.start_s, e.stop_s) for e in events if e.lane == lane), key=lambda item: item[1:])


def test_compute_is_what_remains_between_waits() -> None:
    events = step_events(STEP, 3, rank=1, shift_s=0.0)
    assert _drawn(events, "compute") == [
        ("conv", 0.5, 1.0),  # its halo comes in between
        ("conv", 2.0, 3.0),
        ("fc", 4.0, 5.0),
        ("fc", 6.0, 7.0),
        ("conv", 7.0, 8.5),
        ("wait for gradients", 8.5, 9.0),
        ("conv", 9.0, 9.5),
        ("weights", 9.5, 10.0),
    ]
    assert _drawn(events, "halo") == [("conv", 1.0, 2.0)]
    assert _drawn(events, "sync") == [("w", 7.0, 8.9)]


def test_a_step_has_its_phases_and_moves_to_the_common_clock() -> None:
    events = step_events(STEP, 3, rank=1, shift_s=100.0)
    assert _drawn(events, "step") == [
        ("forward", 100.0, 103.5),
        ("step 3", 100.0, 110.0),
        ("backward", 103.5, 109.5),
        ("update", 109.5, 110.0),
    ]
    assert {event.rank for event in events} == {1}
