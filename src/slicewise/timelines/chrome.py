"""Timelines that open in ui.perfetto.dev or chrome://tracing: one process per rank, one lane per kind of work.

rank 0  step      [ step 0: [forward      ][backward          ][update] ]
        compute     [conv1] [conv2] [fc]    [fc] [conv2] [conv1]
        transfer           []      []           []
        sync                                       [ fc.weight ---- ]
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slicewise.saving import write_file
from slicewise.timelines.event import LANES, Event


def trace_document(events: Iterable[Event], title: str) -> dict[str, Any]:
    """In Chrome's trace format: complete events in microseconds, lanes named and in order."""
    ordered = sorted(events, key=lambda event: (event.rank, _lane(event.lane), event.start_s, -event.stop_s))
    begin_s = min((event.start_s for event in ordered), default=0.0)
    named: list[dict[str, Any]] = []
    for rank in sorted({event.rank for event in ordered}):
        named += [_metadata("process_name", rank, 0, name=f"rank {rank}")]
        named += [_metadata("process_sort_index", rank, 0, sort_index=rank)]
        for lane in sorted({event.lane for event in ordered if event.rank == rank}, key=_lane):
            named += [_metadata("thread_name", rank, _lane(lane), name=lane)]
            named += [_metadata("thread_sort_index", rank, _lane(lane), sort_index=_lane(lane))]
    timed = [
        {
            "ph": "X",
            "name": event.name,
            "cat": event.lane,
            "pid": event.rank,
            "tid": _lane(event.lane),
            "ts": (event.start_s - begin_s) * 1e6,
            "dur": (event.stop_s - event.start_s) * 1e6,
            "args": dict(event.details),
        }
        for event in ordered
        if event.stop_s > event.start_s
    ]
    return {
        "traceEvents": [*named, *timed],
        "displayTimeUnit": "ms",
        "otherData": {"title": title, "schema_version": 1},
    }


def write_trace(path: Path, events: Iterable[Event], title: str) -> None:
    write_file(path, json.dumps(trace_document(events, title)))


def _lane(name: str) -> int:
    assert name in LANES, name
    return LANES.index(name)


def _metadata(kind: str, rank: int, lane: int, **fields: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": rank, "tid": lane, "args": fields}
