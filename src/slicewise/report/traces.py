"""One step of a measured timeline: `slicewise run --trace`, or torch.profiler's."""

import re
import statistics

from slicewise.errors import RequestError
from slicewise.timelines.chrome_file import ChromeEvent, TraceFields
from slicewise.timelines.event import LANES, Event

MOST_RANKS = 8  # a page shows no more
_COLLECTIVE = re.compile(r"(gloo|nccl|mpi|ucc):|nccl(Dev)?Kernel")
_STEP = re.compile(r"step (\d{1,15})|ProfilerStep#(\d{1,15})")


def step_of_trace(trace: TraceFields, name: str) -> list[Event]:
    """The step whose length is the median one, of the first `MOST_RANKS` ranks, in our timelines' lanes, from 0 on."""
    steps: dict[str, dict[int, tuple[float, float]]] = {}
    for span in trace.spans:
        if _STEP.fullmatch(span.name) and (rank := _rank(span.pid, trace.rank)) is not None:
            steps.setdefault(span.name, {}).setdefault(rank, (span.start_us, span.start_us + span.dur))
    if not steps:
        raise RequestError(
            f"{name}: a trace without steps; `slicewise run --trace` writes them, torch.profiler does after prof.step()"
        )
    lengths = {step: max(stop - start for start, stop in ranks.values()) for step, ranks in steps.items()}
    middle = statistics.median_high(lengths.values())
    chosen = next(step for step, length in lengths.items() if length == middle)
    bounds = dict(sorted(steps[chosen].items())[:MOST_RANKS])
    first = min(start for start, _ in bounds.values())
    events = []
    for span in trace.spans:
        rank = _rank(span.pid, trace.rank)
        if rank not in bounds or not span.dur:
            continue
        start, stop = bounds[rank]
        lane = _lane(span)
        if lane and span.start_us >= start - 1 and span.start_us + span.dur <= stop + 1:
            details = {key: value for key, value in (span.args or {}).items() if key in ("layer", "term")}
            events.append(
                Event(
                    rank=rank,
                    lane=lane,
                    name=span.name,
                    start_s=(span.start_us - first) / 1e6,
                    stop_s=(span.start_us + span.dur - first) / 1e6,
                    details=details,
                )
            )
    return events


def _rank(pid: int | str, told: int | None) -> int | None:
    """Ours have the rank as their process; torch.profiler's file is of one rank."""
    if told is not None:
        return told
    return pid if isinstance(pid, int) and pid >= 0 else None


def _lane(span: ChromeEvent) -> str:
    """Of torch.profiler's events those that take time on a device or a link."""
    if span.cat in LANES:
        return span.cat
    if _COLLECTIVE.match(span.name):
        return "sync"
    return "step" if _STEP.fullmatch(span.name) else "compute" if span.cat in ("kernel", "cpu_op") else ""
