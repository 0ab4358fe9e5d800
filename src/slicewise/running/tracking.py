"""Predicted against measured, step by step, while a training runs: scalars for TensorBoard, or for any function.

    with sw.track(plan, SummaryWriter(), csv="steps.csv") as tracked:
        for x, target in loader:
            ...                         # forward, backward, optimizer.step()
            tracked.step()

slicewise/step_s                    this step, by rank 0's clock
slicewise/predicted_s               the plan's
slicewise/measured_over_predicted   above 1: slower than predicted
slicewise/halo_s                    what rank 0 waited for halos in this step; so for every term that moves data

`slicewise diagnose plan.json --measured steps.csv` says what is wrong with them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import torch.distributed as dist

from slicewise.errors import RequestError
from slicewise.plans.plan import Plan
from slicewise.runtime.clock import Clock, running
from slicewise.runtime.devices import rank_device
from slicewise.saving import append_to, check_target, write_file
from slicewise.terms import MOVING


class Writer(Protocol):
    """What TensorBoard's SummaryWriter has."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


Write = Callable[[str, float, int], Any]  # name, value, step


def track(
    plan: Plan | str | Path, writer: Writer | Write, *, csv: str | Path | None = None, first_step: int = 0
) -> "Tracker":
    """Write each step's scalars to `writer`, on rank 0; with `csv`, whole steps into a file for `diagnose`.

    The first step is left out: it makes what later ones use again. `first_step`: its number, where a training goes on
    and the file is added to.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.load(Path(plan))
    write = getattr(writer, "add_scalar", writer)
    if not callable(write):
        raise RequestError(
            f"a {type(writer).__name__} writes no scalars; pass something with add_scalar(name, value, step), "
            "or a function of these three"
        )
    if csv is not None:
        check_target(Path(csv))
    return Tracker(chosen, write, Path(csv) if csv is not None else None, first_step)


class Tracker:
    def __init__(self, plan: Plan, write: Write, csv: Path | None, first_step: int) -> None:
        self._predicted = plan.predicted
        self._write, self._csv = write, csv
        self._first = self._step = first_step
        self._clock = Clock()
        self._watching = running(self._clock)
        self._tells = not dist.is_initialized() or dist.get_rank() == 0
        # where work is queued, the host's clock sees when it was queued
        self._waits = rank_device().type == "cpu"
        self._since_s = 0.0

    def __enter__(self) -> Self:
        self._watching.__enter__()
        if self._csv is not None and self._tells and not (self._first and self._csv.exists()):
            write_file(self._csv, "step,iteration_s\n")
        self._since_s = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watching.__exit__(kind, error, at)

    def step(self) -> None:
        """A step is done."""
        now_s = time.perf_counter()
        step_s, self._since_s = now_s - self._since_s, now_s
        spans = self._clock.spans.copy()
        self._clock.spans.clear()
        if self._step > self._first and self._tells:
            self._tell(step_s)
            if self._waits:
                for term in MOVING:
                    waited_s = sum(span.stop_s - span.start_s for span in spans if span.term == term)
                    self._write(f"slicewise/{term}_s", waited_s, self._step)
        self._step += 1

    def _tell(self, step_s: float) -> None:
        predicted_s = self._predicted.iteration_s
        self._write("slicewise/step_s", step_s, self._step)
        self._write("slicewise/predicted_s", predicted_s, self._step)
        self._write("slicewise/measured_over_predicted", step_s / predicted_s, self._step)
        if self._csv is not None:
            append_to(self._csv, f"{self._step},{step_s:.9f}\n")
