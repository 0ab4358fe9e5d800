"""Each kind of file becomes the same record; what is not one is refused with a reason."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slicewise.diagnosis.readers import iteration_csv, perfetto, run_json, torch_profiler
from slicewise.diagnosis.readers.files import read_files
from slicewise.errors import RequestError
from slicewise.timelines.chrome import trace_document
from slicewise.timelines.event import Event


def written(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    "text", ["0.1\n0.2\n0.3\n", "\ufeffiteration_s\r\n0.1\r\n0.2\r\n0.3\r\n", "iteration_s\n0.1\n0.2\n\n0.3\n"]
)
def test_one_column_of_seconds(tmp_path: Path, text: str) -> None:
    record = read_files([written(tmp_path, "times.csv", text)])
    assert record.kind is iteration_csv.WHOLE
    assert record.ranks is None
    assert record.steps == (0, 1, 2)
    assert record.seconds["step"].tolist() == [[0.1], [0.2], [0.3]]


def test_a_column_per_rank_in_any_order_with_steps_of_their_own(tmp_path: Path) -> None:
    record = read_files([written(tmp_path, "times.csv", "rank1_s,step,rank0_s\n0.2,100,0.1\n0.4,101,0.3\n")])
    assert record.kind is iteration_csv.BY_RANK
    assert (record.ranks, record.steps) == ((0, 1), (100, 101))
    assert record.seconds["step"].tolist() == [[0.1, 0.2], [0.3, 0.4]]


def test_a_file_per_rank_is_in_the_order_given(tmp_path: Path) -> None:
    files = [written(tmp_path, "a.csv", "0.1\n0.2\n"), written(tmp_path, "b.csv", "0.3\n0.4\n")]
    record = read_files(files)
    assert record.ranks == (0, 1)
    assert record.seconds["step"].tolist() == [[0.1, 0.3], [0.2, 0.4]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty; a CSV of iteration times has a column iteration_s"),
        ("seconds\n0.1\n", "columns 'seconds'; there must be iteration_s, or rank0_s"),
        ("iteration_s,rank0_s\n0.1,0.1\n", "columns 'iteration_s', 'rank0_s'; there must be"),
        ("rank0_s,rank00_s\n0.1,0.1\n", "a column stands twice in rank0_s, rank00_s"),
        ("iteration_s\n0.1\nfast\n", "line 3: iteration_s is 'fast'; must be a number above 0"),
        ("step,iteration_s\n1\n", "line 2: iteration_s is ''; must be a number above 0"),
        ("iteration_s\n0.1,0.2\n", "line 2: 2 cells for 1 columns"),
        ("step,iteration_s\n16.7,0.1\n", "line 2: step is 16.7; must be a whole number of at least 0"),
        ("step,iteration_s\n3,0.1\n3,0.1\n", "line 3: step 3 comes after step 3; steps must grow"),
        ("iteration_s\n", "no iteration times"),
        ("iteration_s\n0\n", "line 2: iteration_s is 0; must be a number above 0"),
        ("iteration_s\n-1\n", "line 2: iteration_s is -1.0; must be a number above 0"),
        ("iteration_s\n1e300\n", "line 2: iteration_s is 1e+300; must be a number of at most 1,000,000,000.0"),
        ("iteration_s\nnan\n", "line 2: iteration_s is nan; must be a number above 0"),
        (f"iteration_s\n{'1' * 200_000}\n", "line 2: not CSV (field larger than field limit"),
        ("{oops", "not JSON"),
        ('{"a": 1}', "no seconds by step (`steps_s`)"),
        ('{"steps_s": {"step": [[0.1, 0.2], [0.1]]}}', "`steps_s` is no table of steps x ranks"),
        ('{"steps_s": {"step": [[0.1]], "sync": [[0.1, 0.2]]}}', "`steps_s` is no table of steps x ranks"),
        ('{"steps_s": {"step": []}}', "`steps_s` is no table of steps x ranks"),
        ('{"steps_s": {"step": [[0.1]], "sink": [[0.1]]}}', "steps_s: unknown field 'sink'"),
        ('{"steps_s": {"step": [[0.1]], "sync": [["0"]]}}', "steps_s.sync[0][0] is '0'; must be a number"),
        ('{"steps_s": {"step": [[-0.1]]}}', "steps_s.step[0][0] is -0.1; must be a number above 0"),
        ('{"steps_s": {"step": [[0.1]]}, "batch": 16.7}', "batch is 16.7; must be a whole number of at least 1"),
        ('{"steps_s": {"step": [[0.1]]}, "schema_version": 9}', "schema_version is 9; this release reads 1"),
        ('{"steps_s": {"step": [[0.1]]}, "steps_s": {}}', "field 'steps_s' stands twice in one table"),
        ('{"traceEvents": {}}', "traceEvents is a table; must be a list"),
        ('{"traceEvents": [3]}', "traceEvents[0] is 3; must be a table"),
        ('[{"ph": "X", "dur": -1}]', "traceEvents[0].dur is -1; must be a number of at least 0"),
        ('[{"ph": "X", "name": "step 0", "cat": "step"}]', "traceEvents[0].ts is missing"),
        ('[{"ph": "X", "name": "step 0", "cat": "step", "ts": 0, "pid": "a"}]', "pid of 'step 0' is 'a'; must be"),
        ('[{"ph": "X", "name": "step 0", "cat": "step", "ts": 0, "pid": 0}]', "step 0 takes 0 s; must be from 1e-09"),
        ('{"schemaVersion": 2, "traceEvents": []}', "schema_version is 2; this release reads 1"),
        ('{"otherData": {"schema_version": 2}, "traceEvents": []}', "schema_version is 2; this release reads 1"),
        ("[" * 100_000, "nested too deeply"),
        ('{"traceEvents": []}', "a trace without steps; `slicewise run --trace` writes them"),
    ],
)
def test_what_is_none_of_the_kinds_is_refused_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_files([written(tmp_path, "file", text)])
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RequestError, match="not JSON or CSV"):
        read_files([path])


def test_files_of_two_kinds_or_twice_the_same_rank_are_refused(tmp_path: Path) -> None:
    run = written(tmp_path, "run.json", {"steps_s": {"step": [[0.1, 0.1]]}})
    with pytest.raises(RequestError, match="files of one kind at a time"):
        read_files([run, written(tmp_path, "times.csv", "0.1\n")])
    with pytest.raises(RequestError, match="rank 0 is in more than one of"):
        read_files([run, run])


def test_the_json_of_a_run(tmp_path: Path) -> None:
    table = {"step": [[0.3, 0.3], [0.4, 0.4]], "compute": [[0.1, 0.2], [0.2, 0.3]], "sync": [[0.1, 0.1], [0.1, 0.1]]}
    record = read_files(
        [written(tmp_path, "run.json", {"model": "lenet5", "batch": 8, "devices": 2, "steps_s": table})]
    )
    assert record.kind is run_json.KIND
    assert record.facts == {"model": "lenet5", "batch": 8, "devices": 2}
    assert record.ranks == (0, 1)
    assert record.communication is not None
    assert record.communication.tolist() == [0.1, 0.1]


def timeline() -> dict[str, Any]:
    """Two steps of 100 ms. Rank 1 comes 20 ms later to the halo and waits 30 ms for its batch; syncs last 10 ms."""
    events = []
    for rank, late in ((0, 0.0), (1, 0.02)):
        for step, start in ((0, 1.0), (1, 1.2)):

            def event(lane: str, name: str, at: float, to: float, **details: str) -> None:
                events.append(
                    Event(
                        rank=rank,  # noqa: B023 (called at once)
                        lane=lane,
                        name=name,
                        start_s=start + at,  # noqa: B023
                        stop_s=start + to,  # noqa: B023
                        details=details,
                    )
                )

            event("step", f"step {step}", 0.0, 0.1)
            event("step", "forward", 0.0, 0.06)
            event("halo", "conv", 0.02 + late, 0.045, layer="conv", term="halo")
            event("compute", "conv", 0.045, 0.06, layer="conv", term="forward")
            event("compute", "wait for gradients", 0.08, 0.09, layer="w", term="sync")
            event("sync", "w", 0.05, 0.09, layer="w", term="sync")
            event("compute", "weights", 0.09, 0.1, term="update")
            if rank == 1:
                event("step", "wait for data", -0.04, -0.01)
    return trace_document(events, "test")


def test_a_timeline_is_taken_apart_into_terms(tmp_path: Path) -> None:
    record = read_files([written(tmp_path, "trace.json", timeline())])
    assert record.kind is perfetto.KIND
    assert (record.steps, record.ranks) == ((0, 1), (0, 1))
    told = {term: values[1].round(6).tolist() for term, values in record.seconds.items()}
    assert told == {
        "step": [0.1, 0.1],
        "compute": [0.055, 0.075],
        "data": [0.0, 0.03],
        "wait": [0.02, 0.0],
        "transfer": [0.0, 0.0],
        "halo": [0.005, 0.005],
        "reduce": [0.0, 0.0],
        "sync": [0.01, 0.01],
        "update": [0.01, 0.01],
    }
    assert np.allclose(record.seconds["data"][0], [0.0, 0.03])


def profiled(rank: int, work_us: float, *, gpu: bool = False, pid: int = 7) -> dict[str, Any]:
    """Steps 3 and 4 of 1000 us: 100 of data, `work_us` of operators, then the all-reduce until 900, 100 of update."""

    def event(
        category: str, name: str, start: float, length: float, tid: int = 1, process: int = pid
    ) -> dict[str, Any]:
        return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "pid": process, "tid": tid}

    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "python"}}]
    for step, start in ((3, 5000.0), (4, 6000.0)):
        events += [
            event("user_annotation", f"ProfilerStep#{step}", start, 1000),
            event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", start, 100),
            event("cpu_op", "c10d::allreduce_", start + 400, 10),
            event("user_annotation", "Optimizer.step#SGD.step", start + 900, 100),
        ]
        if gpu:  # operators only start kernels
            events += [
                event("cpu_op", "aten::conv2d", start + 100, 20),
                event("kernel", "sm80_xmma_fprop", start + 100, work_us, tid=7, process=0),
                event("kernel", "ncclDevKernel_AllReduce_Sum_f32", start + 200, 700, tid=20, process=0),
                event("user_annotation", "nccl:all_reduce", start + 400, 10),
            ]
        else:
            half = work_us / 2
            events += [
                event("cpu_op", "aten::conv2d", start + 100, half),
                event("cpu_op", "aten::relu", start + 100 + half + 30, half - 30),  # Python in between
                event("user_annotation", "gloo:all_reduce", start + 200, 700, tid=99),
            ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


@pytest.mark.parametrize("gpu", [False, True], ids=["gloo", "nccl"])
def test_profiler_traces_of_two_ranks_tell_moving_from_waiting(tmp_path: Path, gpu: bool) -> None:
    files = [written(tmp_path, f"{rank}.json", profiled(rank, work, gpu=gpu)) for rank, work in ((1, 700), (0, 500))]
    record = read_files(files)
    assert record.kind is torch_profiler.KIND
    assert (record.steps, record.ranks) == ((3, 4), (0, 1))
    told = {term: (values[0] * 1e6).round(3).tolist() for term, values in record.seconds.items()}
    assert told == {
        "step": [900, 900],
        "data": [100, 100],
        "compute": [500, 700],
        "communication": [100, 100],
        "update": [100, 100],
        "wait": [200, 0],
    }


def test_one_profiler_trace_for_all_ranks(tmp_path: Path) -> None:
    both = profiled(0, 500)
    both["traceEvents"] += profiled(1, 700, pid=8)["traceEvents"]
    record = read_files([written(tmp_path, "all.json", both)])
    assert record.ranks == (0, 1)
    assert (record.seconds["wait"][0] * 1e6).round(3).tolist() == [200, 0]


def test_one_profiler_trace_for_all_ranks_and_their_gpus(tmp_path: Path) -> None:
    """Kernels carry the number of their device, in the order of the ranks."""
    first, second = profiled(0, 500, gpu=True), profiled(1, 700, gpu=True, pid=8)
    for event in second["traceEvents"]:
        event["pid"] = 1 if event.get("cat") == "kernel" else event["pid"]
    first["traceEvents"] += second["traceEvents"]
    record = read_files([written(tmp_path, "all.json", first)])
    assert (record.seconds["wait"][0] * 1e6).round(3).tolist() == [200, 0]
    for event in first["traceEvents"]:
        event["pid"] = 0 if event.get("cat") == "kernel" else event["pid"]
    with pytest.raises(RequestError, match="2 ranks and 1 devices; give one trace per rank"):
        read_files([written(tmp_path, "all.json", first)])


def test_a_compressed_trace_of_one_rank_counts_waiting_as_moving(tmp_path: Path) -> None:
    path = tmp_path / "rank1.json.gz"
    path.write_bytes(gzip.compress(json.dumps(profiled(1, 500)).encode()))
    record = read_files([path])
    assert record.ranks == (1,)
    assert (record.seconds["communication"] * 1e6).round(3).tolist() == [[300], [300]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b"iteration_s\n0.1\n", mtime=0)[:-9], "compressed, and damaged"),
        (gzip.compress(b"iteration_s\n0.1\n", mtime=0)[:12] + b"xxxx", "compressed, and damaged"),
        (b"\x1f\x8bnot gzip at all", "compressed, and damaged"),
        (300 * gzip.compress(bytes(2**20), mtime=0), "larger than 256 MiB"),
    ],
    ids=["cut short", "broken inside", "broken from the start", "a bomb"],
)
def test_a_compressed_file_that_is_damaged_or_never_ends_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "times.csv.gz"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=reason):
        read_files([path])
