"""Which kind a file is of, by what is in it; several files of one run become one record."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from slicewise.diagnosis.readers import iteration_csv, perfetto, run_json, torch_profiler
from slicewise.diagnosis.record import Record, joined
from slicewise.errors import RequestError


def read_files(paths: Sequence[Path]) -> Record:
    """>>> read_files([Path("rank0.json"), Path("rank1.json")]).ranks
    (0, 1)
    """
    record = joined([read_file(path) for path in paths])
    return torch_profiler.with_waits(record) if record.kind is torch_profiler.KIND else record


def read_file(path: Path) -> Record:
    name = str(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = content.decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise RequestError(f"{name}: neither JSON nor CSV ({error})") from error
    if not text.lstrip().startswith(("{", "[")):
        return iteration_csv.read(text, name)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise RequestError(f"{name}: not JSON ({error})") from error
    if isinstance(document, list):
        document = {"traceEvents": document}
    if "traceEvents" not in document:
        return run_json.read(document, name)
    events = document["traceEvents"]
    if torch_profiler.reads(events):
        return torch_profiler.read(document, name)
    if perfetto.reads(events):
        return perfetto.read(events, name)
    raise RequestError(
        f"{name}: a trace without steps; `slicewise run --trace` writes them, torch.profiler does after prof.step() at "
        f"the end of each iteration"
    )
