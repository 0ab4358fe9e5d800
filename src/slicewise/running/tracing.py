"""What all ranks did in the measured steps, as the events of one timeline."""

import statistics
from collections.abc import Sequence

import torch.distributed as dist

from slicewise.running.measure import StepTime
from slicewise.runtime.clock import Clock, Span
from slicewise.timelines.event import Event


def gather_events(steps: Sequence[StepTime], data: Sequence[tuple[float, float]] = ()) -> list[Event]:
    """Of every rank, by rank 0's clock. Ranks start each step together: so far, in the median, their clocks differ.

    `data`: from when to when this rank waited for each step's batch.
    """
    starts: list[object] = [[step.start_s for step in steps]]
    dist.broadcast_object_list(starts, src=0)
    common: list[float] = starts[0]  # type: ignore[assignment]
    shift_s = statistics.median(start_s - step.start_s for step, start_s in zip(steps, common, strict=True))
    rank = dist.get_rank()
    mine = [event for number, step in enumerate(steps) for event in step_events(step, number, rank, shift_s)]
    mine += [
        Event(rank=rank, lane="step", name="wait for data", start_s=start_s + shift_s, stop_s=stop_s + shift_s)
        for start_s, stop_s in data
    ]
    every: list[list[Event]] = [[]] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return [event for events in every for event in events]


def step_events(step: StepTime, number: int, rank: int, shift_s: float) -> list[Event]:
    """One step of one rank: its phases, its kernels without what they wait for, its communication."""

    def event(lane: str, name: str, start_s: float, stop_s: float, **details: str) -> Event:
        return Event(
            rank=rank, lane=lane, name=name, start_s=start_s + shift_s, stop_s=stop_s + shift_s, details=details
        )

    clock = step.clock
    events = [
        event("step", f"step {number}", step.start_s, step.stop_s),
        event("step", "update", step.backward_stop_s, step.stop_s),
        event("compute", "weights", step.backward_stop_s, step.stop_s, term="update"),
    ]
    if clock.backward_start_s is None:  # a pipeline goes forward and backward in turns
        events.append(event("step", "forward and backward", step.start_s, step.backward_stop_s))
    else:
        events.append(event("step", "forward", step.start_s, clock.backward_start_s))
        events.append(event("step", "backward", clock.backward_start_s, step.backward_stop_s))
    for span in clock.spans:
        # gradients travel beside compute, from `flights`; the device only waits for the last of them
        lane, name = ("compute", "wait for gradients") if span.term == "sync" else (span.term, span.layer)
        events.append(event(lane, name, span.start_s, span.stop_s, layer=span.layer, term=span.term))
    for span in clock.flights:
        events.append(event(span.term, span.layer, span.start_s, span.stop_s, layer=span.layer, term=span.term))
    for span in [*clock.kernels, *_backward(clock, step)]:
        for start_s, stop_s in _between(span, clock.spans):
            events.append(event("compute", span.layer, start_s, stop_s, layer=span.layer, term=span.term))
    return events


def _backward(clock: Clock, step: StepTime) -> list[Span]:
    """A layer's backward lasts until backward comes to the next one."""
    ends = [start_s for start_s, _ in clock.marks[1:]] + [step.backward_stop_s] * bool(clock.marks)
    return [
        Span("backward", layer, start_s, stop_s) for (start_s, layer), stop_s in zip(clock.marks, ends, strict=True)
    ]


def _between(span: Span, waits: Sequence[Span]) -> list[tuple[float, float]]:
    """The parts of `span` outside all `waits`."""
    parts, now = [], span.start_s
    for wait in sorted(waits, key=lambda wait: wait.start_s):
        if wait.stop_s <= now or wait.start_s >= span.stop_s:
            continue
        if wait.start_s > now:
            parts.append((now, wait.start_s))
        now = wait.stop_s
    if now < span.stop_s:
        parts.append((now, span.stop_s))
    return parts
