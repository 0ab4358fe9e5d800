import json
from pathlib import Path
from typing import Any

from slicewise.timelines.chrome import trace_document, write_trace
from slicewise.timelines.event import Event


def _event(rank: int, lane: str, name: str, start_s: float, stop_s: float) -> Event:
    return Event(rank=rank, lane=lane, name=name, start_s=start_s, stop_s=stop_s, details={"layer": name})


def _lanes(document: dict[str, Any], rank: int) -> list[str]:
    named = [event for event in document["traceEvents"] if event["name"] == "thread_name" and event["pid"] == rank]
    return [event["args"]["name"] for event in sorted(named, key=lambda event: event["tid"])]


def test_ranks_are_processes_and_lanes_lie_in_one_order() -> None:
    events = [_event(1, "sync", "w", 2, 3), _event(1, "compute", "conv", 1, 2), _event(0, "step", "step 0", 1, 3)]
    document = trace_document(events, "test")
    processes = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    assert processes == {0: "rank 0", 1: "rank 1"}
    assert _lanes(document, 0) == ["step"]
    assert _lanes(document, 1) == ["compute", "sync"]


def test_time_starts_with_the_first_event_and_counts_microseconds() -> None:
    document = trace_document([_event(0, "compute", "b", 5.5, 6.0), _event(0, "compute", "a", 5.0, 5.25)], "test")
    timed = [(e["name"], e["ts"], e["dur"]) for e in document["traceEvents"] if e["ph"] == "X"]
    assert timed == [("a", 0.0, 0.25e6), ("b", 0.5e6, 0.5e6)]


def test_what_takes_no_time_is_not_drawn() -> None:
    document = trace_document([_event(0, "halo", "none", 1.0, 1.0), _event(0, "halo", "some", 1.0, 2.0)], "test")
    assert [e["name"] for e in document["traceEvents"] if e["ph"] == "X"] == ["some"]


def test_a_file_is_json_that_names_the_run(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_trace(path, [_event(0, "compute", "conv", 0, 1)], "alexnet, 2 ranks")
    assert json.loads(path.read_text())["otherData"]["title"] == "alexnet, 2 ranks"
