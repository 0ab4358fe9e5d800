"""Where the time of a step goes: spans around communication, by term and layer. Off unless a clock is running."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    term: str
    layer: str
    start_s: float
    stop_s: float


@dataclass
class Clock:
    spans: list[Span] = field(default_factory=list)


_running: Clock | None = None


@contextmanager
def running(clock: Clock) -> Iterator[Clock]:
    """Collect the spans of everything inside."""
    global _running
    before, _running = _running, clock
    try:
        yield clock
    finally:
        _running = before


@contextmanager
def span(term: str, layer: str) -> Iterator[None]:
    clock = _running
    if clock is None:
        yield
        return
    start_s = time.perf_counter()
    try:
        yield
    finally:
        clock.spans.append(Span(term, layer, start_s, time.perf_counter()))
