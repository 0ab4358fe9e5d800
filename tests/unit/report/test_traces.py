"""One step of traces that were measured: the same of every file, each rank in a lane of its own."""

from typing import Any

import pytest

from slicewise.errors import RequestError
from slicewise.report.traces import Trace, step_of, trace_of
from slicewise.timelines.chrome_file import read_trace


def _trace(lengths_us: list[float], *, pid: int = 7, rank: int | None = None, start_us: float = 0.0) -> Trace:
    """Steps one after the other, as torch.profiler tells them, with one operator in each."""
    events: list[dict[str, Any]] = []
    for number, length in enumerate(lengths_us):
        plain = {"ph": "X", "pid": pid, "tid": 1, "ts": start_us}
        events.append({**plain, "name": f"ProfilerStep#{number}", "dur": length})
        events.append({**plain, "name": "aten::conv2d", "cat": "cpu_op", "dur": length / 2})
        start_us += length
    known = {} if rank is None else {"distributedInfo": {"rank": rank}}
    return trace_of(read_trace({"traceEvents": events, **known}, "trace.json"), "trace.json")


def _steps(traces: list[Trace]) -> dict[int, float]:
    return {event.rank: event.stop_s for event in step_of(traces) if event.lane == "step"}


def test_a_process_of_which_nobody_knows_the_rank_is_rank_0() -> None:
    assert _trace([10.0], pid=4711).ranks == [0]
    assert _trace([10.0], rank=3).ranks == [3]


def test_of_several_files_the_same_step_is_shown_whatever_their_clocks() -> None:
    first, second = _trace([50, 10, 30], rank=0), _trace([20, 40, 30], rank=1, start_us=1e9)
    # the slower of both: 50, 40, 30; the middle one is step 1
    assert _steps([first, second]) == pytest.approx({0: 10e-6, 1: 40e-6})


def test_files_that_claim_the_same_rank_are_ranks_one_after_the_other() -> None:
    assert sorted(_steps([_trace([10.0]), _trace([20.0]), _trace([30.0])])) == [0, 1, 2]


def test_files_without_a_common_step_show_one_of_their_own() -> None:
    late = read_trace([{"ph": "X", "pid": 0, "name": "step 9", "ts": 0.0, "dur": 5.0}], "late.json")
    assert _steps([_trace([10.0], rank=0), trace_of(late, "late.json")]) == pytest.approx({0: 10e-6, 1: 5e-6})


def test_no_traces_have_no_step() -> None:
    assert step_of([]) == []
    with pytest.raises(RequestError, match="without steps"):
        trace_of(read_trace([], "empty.json"), "empty.json")
