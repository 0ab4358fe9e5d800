"""Which kind a file is of, by what is in it; several files of one run become one record."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slicewise.diagnosis.readers import iteration_csv, perfetto, run_json, torch_profiler
from slicewise.diagnosis.record import Record, joined
from slicewise.errors import RequestError
from slicewise.formats.files import parse_json, read_text
from slicewise.formats.schema import LONGEST_S, SHORTEST_S
from slicewise.timelines.chrome_file import read_trace


def read_files(paths: Sequence[Path]) -> Record:
    """Files of one run: of several ranks each, or one of all."""
    record = joined([read_file(path) for path in paths])
    return torch_profiler.with_waits(record) if record.kind is torch_profiler.KIND else record


def read_file(path: Path) -> Record:
    name = str(path)
    text = read_text(path, RequestError, "JSON or CSV")
    record = _json(text, name) if text.lstrip().startswith(("{", "[")) else iteration_csv.read(text, name)
    for step, seconds in zip(record.steps, record.seconds["step"], strict=True):
        if not (seconds.min() >= SHORTEST_S and seconds.max() <= LONGEST_S):
            raise RequestError(
                f"{name}: step {step} takes {seconds.min():g} s; must be from {SHORTEST_S:g} to {LONGEST_S:g} s"
            )
    assert all(np.isfinite(values).all() for values in record.seconds.values())
    return record


def _json(text: str, name: str) -> Record:
    document = parse_json(text, name, RequestError)
    if isinstance(document, dict) and "traceEvents" not in document:
        return run_json.read(document, name)
    trace = read_trace(document, name)
    if torch_profiler.reads(trace.spans):
        return torch_profiler.read(trace, name)
    if perfetto.reads(trace.spans):
        return perfetto.read(trace.spans, name)
    raise RequestError(
        f"{name}: a trace without steps; `slicewise run --trace` writes them, torch.profiler does after prof.step() at "
        f"the end of each iteration"
    )
