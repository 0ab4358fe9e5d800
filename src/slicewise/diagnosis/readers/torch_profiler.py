"""Chrome traces of torch.profiler (`export_chrome_trace`), one file per rank or merged ones.

    main thread    [ data ][ aten aten aten   aten aten ]........[ update ]       ProfilerStep#7
    collectives                     [ all_reduce ------------- ]
    exposed                                              [     ]                  communication, or waiting for a rank

On GPUs the same with kernels: those of NCCL against all others.
"""

import re
from collections.abc import Sequence

import numpy as np

from slicewise.diagnosis.record import FileKind, Record, separated
from slicewise.errors import RequestError
from slicewise.timelines.chrome_file import ChromeEvent, TraceFields

KIND = FileKind(
    name="torch.profiler trace",
    can_tell=(
        "a slow rank from a rank that waits for it, given the traces of all ranks",
        "communication that compute does not hide from compute",
        "waiting for a torch DataLoader from both",
        "since which of the profiled steps",
    ),
    cannot_tell=(
        "layout changes, halos, statistics and gradients from each other: collectives have no term",
        "a loader of your own from compute, unless it is a torch DataLoader",
        "a slow rank from a slow link, given the trace of one rank",
        "what happens outside the profiled steps; profiling itself makes steps slower",
    ),
)
_STEP = re.compile(r"ProfilerStep#([0-9]{1,15})")
_COLLECTIVE = re.compile(r"(gloo|nccl|mpi|ucc):|nccl(Dev)?Kernel")
_GAP_US = 50.0  # between two operators: Python, not waiting
_Intervals = list[tuple[float, float]]


def reads(spans: Sequence[ChromeEvent]) -> bool:
    return any(_is_step(span) for span in spans)


def _is_step(event: ChromeEvent) -> bool:
    return event.cat == "user_annotation" and _STEP.fullmatch(event.name) is not None


def read(trace: TraceFields, name: str) -> Record:
    events = trace.spans
    owners = sorted({str(event.pid) for event in events if _is_step(event)})
    on_device = any(event.cat == "kernel" for event in events)
    # kernels carry their device as process; in a trace of one rank all of them are that rank's
    devices = sorted({str(event.pid) for event in events if event.cat == "kernel"})
    if len(owners) > 1 and devices and len(devices) != len(owners):
        raise RequestError(f"{name}: {len(owners)} ranks and {len(devices)} devices; give one trace per rank")
    processes: list[list[ChromeEvent]] = [[] for _ in owners]
    for event in events:
        pids = devices if event.cat == "kernel" else owners
        if len(owners) == 1:
            processes[0].append(event)
        elif str(event.pid) in pids:
            processes[pids.index(str(event.pid))].append(event)
    said = trace.rank
    ranks = tuple(range(len(owners))) if len(owners) > 1 or said is None else (said,)
    columns = [_Process(process, on_device) for process in processes]
    steps = sorted(set.intersection(*(set(column.steps) for column in columns)))
    if not steps:
        raise RequestError(f"{name}: no step that all of its ranks have")
    tables = [[column.seconds(step) for step in steps] for column in columns]
    terms = {term: np.array([[row[term] for row in table] for table in tables]).T for term in tables[0][0]}
    return with_waits(
        Record(
            kind=KIND,
            files=(name,),
            steps=tuple(steps),
            ranks=ranks if said is not None or len(owners) > 1 else None,
            seconds=terms,
        )
    )


def with_waits(record: Record) -> Record:
    """Exposed communication taken apart: what the rank has that came last is moving, the rest waiting."""
    exposed = record.seconds["communication"] + record.seconds.get("wait", 0.0)
    moving, waiting = separated(exposed)
    return Record(
        kind=record.kind,
        files=record.files,
        steps=record.steps,
        ranks=record.ranks,
        seconds={**record.seconds, "communication": moving, "wait": waiting},
        facts=record.facts,
    )


class _Process:
    """One rank's events."""

    def __init__(self, events: Sequence[ChromeEvent], on_device: bool) -> None:
        self.steps: dict[int, tuple[float, float]] = {}
        threads = set()
        for event in events:
            if _is_step(event) and (match := _STEP.fullmatch(event.name)):
                self.steps[int(match[1])] = _interval(event)
                threads.add(event.tid)
        collectives, busy, data, update = [], [], [], []
        for event in events:
            named, category = event.name, event.cat
            if _COLLECTIVE.match(named) and category == ("kernel" if on_device else "user_annotation"):
                collectives.append(_interval(event))
            elif category == "kernel" or (not on_device and named.startswith("aten::") and event.tid in threads):
                busy.append(_interval(event))
            elif category == "user_annotation" and named.startswith("enumerate(DataLoader)"):
                data.append(_interval(event))
            elif category == "user_annotation" and named.startswith("Optimizer.step"):
                update.append(_interval(event))
        self._collectives, self._data, self._update = _union(collectives), _union(data), _union(update)
        self._busy = _union([*_union(busy, _GAP_US), *self._data, *self._update])

    def seconds(self, step: int) -> dict[str, float]:
        window = [self.steps[step]]
        exposed = _common(self._collectives, window) - _common(_shared(self._collectives, self._busy), window)
        data, update = _common(self._data, window), _common(self._update, window)
        whole = window[0][1] - window[0][0] - data
        in_us = {
            "step": whole,
            "data": data,
            "compute": whole - exposed - update,
            "communication": exposed,
            "update": update,
        }
        return {term: value / 1e6 for term, value in in_us.items()}


def _interval(event: ChromeEvent) -> tuple[float, float]:
    return event.start_us, event.start_us + event.dur


def _union(intervals: _Intervals, gap: float = 0.0) -> _Intervals:
    """Sorted and disjoint; what lies no further apart than `gap` is joined."""
    result: _Intervals = []
    for start, stop in sorted(intervals):
        if result and start <= result[-1][1] + gap:
            result[-1] = (result[-1][0], max(result[-1][1], stop))
        else:
            result.append((start, stop))
    return result


def _shared(one: _Intervals, other: _Intervals) -> _Intervals:
    """What lies in both of two disjoint, sorted lists."""
    result, position = [], 0
    for start, stop in one:
        while position and other[position - 1][1] > start:
            position -= 1
        while position < len(other) and other[position][0] < stop:
            low, high = max(start, other[position][0]), min(stop, other[position][1])
            if low < high:
                result.append((low, high))
            position += 1
    return result


def _common(intervals: _Intervals, window: _Intervals) -> float:
    return sum(stop - start for start, stop in _shared(window, intervals))
