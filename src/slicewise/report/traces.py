"""One step of measured timelines: `slicewise run --trace`, or torch.profiler's, one file or a file per rank."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.errors import RequestError
from slicewise.timelines.chrome_file import ChromeEvent, TraceFields
from slicewise.timelines.event import LANES, Event

MOST_RANKS = 8  # a page shows no more
_COLLECTIVE = re.compile(r"(gloo|nccl|mpi|ucc):|nccl(Dev)?Kernel")
_STEP = re.compile(r"step (\d{1,15})|ProfilerStep#(\d{1,15})")

Bounds = tuple[float, float]  # microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A file's steps, and what can be drawn of them. Ranks share the file's clock, but not that of another file."""

    steps: Mapping[str, Mapping[int, Bounds]]  # step -> rank -> when it was
    spans: Sequence[tuple[int, str, ChromeEvent]]  # rank, lane, and what was done

    @property
    def ranks(self) -> list[int]:
        return sorted({rank for bounds in self.steps.values() for rank in bounds})

    @property
    def lengths(self) -> dict[str, float]:
        """Of every step: the slowest rank's."""
        return {step: max(stop - start for start, stop in ranks.values()) for step, ranks in self.steps.items()}


def trace_of(found: TraceFields, name: str) -> Trace:
    """Ours have the rank as their process. torch.profiler's file is of one rank; if it does not know which, of 0."""
    ours = found.otherData is not None
    steps: dict[str, dict[int, Bounds]] = {}
    spans = []
    processes: dict[int, int] = {}
    for span in found.spans:
        if found.rank is None and not (isinstance(span.pid, int) and span.pid >= 0):
            continue
        process = span.pid if found.rank is None else found.rank
        assert isinstance(process, int)
        if _STEP.fullmatch(span.name):
            processes.setdefault(process, process if ours or found.rank is not None else len(processes))
            bounds = (span.start_us, span.start_us + span.dur)
            steps.setdefault(span.name, {}).setdefault(processes[process], bounds)
        if span.dur and (lane := _lane(span)):
            spans.append((process, lane, span))
    if not steps:
        raise RequestError(
            f"{name}: a trace without steps; `slicewise run --trace` writes them, torch.profiler does after prof.step()"
        )
    return Trace(steps=steps, spans=[(processes[at], lane, span) for at, lane, span in spans if at in processes])


def step_of(traces: Sequence[Trace]) -> list[Event]:
    """The step of median length, of the first `MOST_RANKS` ranks, in our timelines' lanes; every file's begins at 0.

    Of several files the same step, if all have it. A file whose ranks another has too is of ranks that come after.
    """
    shared = set.intersection(*(set(trace.steps) for trace in traces)) if traces else set()
    lengths = {step: max(trace.lengths[step] for trace in traces) for step in sorted(shared)}
    events: list[Event] = []
    taken: set[int] = set()
    for trace in traces:
        ranks = trace.ranks
        first = 0 if taken.isdisjoint(ranks) else max(taken) + 1
        named = {rank: rank if not first else first + number for number, rank in enumerate(ranks)}
        taken |= set(named.values())
        step = _middle(lengths or trace.lengths)
        events += _events(trace, step, {rank: named[rank] for rank in trace.steps[step]})
    kept = sorted({event.rank for event in events})[:MOST_RANKS]
    return [event for event in events if event.rank in kept]


def _middle(lengths: Mapping[str, float]) -> str:
    middle = statistics.median_high(lengths.values())
    return next(step for step, length in lengths.items() if length == middle)


def _events(trace: Trace, step: str, named: Mapping[int, int]) -> list[Event]:
    bounds = trace.steps[step]
    first = min(start for start, _ in bounds.values())
    found = []
    for rank, lane, span in trace.spans:
        if rank not in bounds:
            continue
        start, stop = bounds[rank]
        if span.start_us >= start - 1 and span.start_us + span.dur <= stop + 1:
            found.append(
                Event(
                    rank=named[rank],
                    lane=lane,
                    name=span.name,
                    start_s=(span.start_us - first) / 1e6,
                    stop_s=(span.start_us + span.dur - first) / 1e6,
                    details={key: value for key, value in (span.args or {}).items() if key in ("layer", "term")},
                )
            )
    return found


def _lane(span: ChromeEvent) -> str:
    """Of torch.profiler's events those that take time on a device or a link."""
    if span.cat in LANES:
        return span.cat
    if _COLLECTIVE.match(span.name):
        return "sync"
    return "step" if _STEP.fullmatch(span.name) else "compute" if span.cat in ("kernel", "cpu_op") else ""
