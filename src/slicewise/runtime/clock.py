"""Where the time of a step goes: spans by term and layer. Off unless a clock is running. Marks where the rank is, too.

span("transfer", layer)             around communication that the layer waits for
computed(layer, kernel, arguments)  around its kernel; where wished, backward says when it comes to the layer again
follow("sync", weight, start)       what is started and goes on beside compute
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slicewise.runtime.whereabouts import mark

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Span:
    term: str
    layer: str
    start_s: float
    stop_s: float


@dataclass
class Clock:
    """`layers`: time kernels too, which a measurement of whole steps does without."""

    layers: bool = False
    spans: list[Span] = field(default_factory=list)  # communication: the same on every rank, in the same order
    kernels: list[Span] = field(default_factory=list)
    flights: list[Span] = field(default_factory=list)  # asynchronous, from start to completion
    marks: list[tuple[float, str]] = field(default_factory=list)  # when backward came to a layer
    backward_start_s: float | None = None


_running: Clock | None = None
_backward_at: str | None = None  # the layer that backward came to last


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
    global _backward_at
    clock = _running
    mark(term, layer)
    start_s = time.perf_counter()
    try:
        yield
        mark("compute", layer)
    except Exception:
        _backward_at = layer
        raise
    finally:
        if clock is not None:
            clock.spans.append(Span(term, layer, start_s, time.perf_counter()))


def computed(
    layer: str, kernel: "Callable[[list[Tensor]], Tensor]", arguments: "list[Tensor]", *, in_backward: bool
) -> "Tensor":
    """`kernel(arguments)`, known by its layer in traces and failures; in backward too, which costs a call per layer."""
    mark("compute", layer)
    clock = _running
    traced = clock is not None and clock.layers
    before = [argument.grad_fn for argument in arguments] if traced or in_backward else []
    start_s = time.perf_counter()
    try:
        result = kernel(arguments)
    except Exception as error:
        error.add_note(f"layer {layer}")
        raise
    if not (traced or in_backward):
        return result
    if clock is not None and traced:
        clock.kernels.append(Span("forward", layer, start_s, time.perf_counter()))
    made_by = result.grad_fn
    # a layer that hands its input on has no backward of its own
    if made_by is not None and all(made_by is not other for other in before):
        made_by.register_prehook(lambda _: _arrive(layer))
    return result


def _arrive(layer: str) -> None:
    global _backward_at
    _backward_at = layer
    clock = _running
    if clock is not None and clock.layers:
        clock.marks.append((time.perf_counter(), layer))


def backpropagate(loss: "Tensor") -> None:
    """`loss.backward()`; what fails says at which layer."""
    global _backward_at
    _backward_at = None
    if _running is not None:
        _running.backward_start_s = time.perf_counter()
    try:
        loss.backward()
    except Exception as error:
        error.add_note("backward" if _backward_at is None else f"layer {_backward_at}, backward")
        raise


def follow(term: str, layer: str, start: "Callable[[], dist.Work | None]") -> "dist.Work | None":
    """`start()` a collective that goes on beside compute, seen until it is done."""
    mark("backward", layer)
    clock = _running
    if clock is None or not clock.layers:
        return start()
    start_s = time.perf_counter()
    work = start()
    if work is not None:
        # called on the thread that completes the collective, when it does
        work.get_future().add_done_callback(
            lambda _: clock.flights.append(Span(term, layer, start_s, time.perf_counter()))
        )
    return work
