"""Measured training runs, one per line of a CSV file: what a fit learns from.

model,strategy,devices,batch,iteration_s,split,dtype,input
resnet50,serial,1,64,0.2,,,
resnet50,data+filter,16,256,0.3,4x4,fp32,3x224x224
"""

import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn

from slicewise.dtype import DTYPES
from slicewise.errors import RequestError
from slicewise.formats.checking import checked
from slicewise.formats.files import number, parse_csv, read_text
from slicewise.formats.schema import Count, Name, Positive, Seconds, Table
from slicewise.formats.words import shown
from slicewise.graph.sources import names_code
from slicewise.strategy import SERIAL, STRATEGIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured configuration; `batch` is that of all devices together."""

    model: str
    strategy: str
    devices: int
    batch: int
    iteration_s: float
    split: tuple[int, int] | None = None  # of hybrids: p1 groups of p2
    dtype: str = "fp32"
    input: tuple[int, ...] | None = None  # of one sample, where it is not the model's own
    compute_s: float | None = None  # of iteration_s, where it was measured too
    communication_s: float | None = None
    memory_bytes: float | None = None  # at most, of the device that held most


class RunFields(Table):
    """The columns; those with a default may be missing, and any cell of them empty."""

    model: Name
    strategy: Name
    devices: Count
    batch: Count
    iteration_s: Seconds
    split: str = ""
    dtype: str = ""
    input: str = ""
    compute_s: Seconds | None = None
    communication_s: Seconds | None = None
    memory_bytes: Positive | None = None


_COLUMNS = RunFields.__struct_fields__
_REQUIRED = _COLUMNS[: -len(RunFields.__struct_defaults__)]
_NUMBERS = ("devices", "batch", "iteration_s", "compute_s", "communication_s", "memory_bytes")


def read_runs(path: Path) -> tuple[Run, ...]:
    """All lines of the file; errors name the file, the line and the column."""
    rows = parse_csv(read_text(path, RequestError, "CSV"), str(path), RequestError)
    names = rows[0][1] if rows else []
    for name in _REQUIRED:
        if name not in names:
            raise RequestError(f"{path}: no column {name!r}; the first line must name {', '.join(_REQUIRED)}")
    if len(set(names)) < len(names):
        raise RequestError(f"{path}: a column stands twice in the first line; leave one of them")
    if len(rows) < 2:
        raise RequestError(f"{path}: no runs; one line per measured configuration, below the names of the columns")
    return tuple(_run(dict(zip_longest(names, row, fillvalue="")), f"{path}, line {line}") for line, row in rows[1:])


def _run(cells: dict[str, str], where: str) -> Run:
    said = {
        name: number(cell) if name in _NUMBERS else cell
        for name, cell in cells.items()
        if cell or name in _REQUIRED or name not in _COLUMNS
    }
    fields = checked(RunFields, said, where)
    if names_code(fields.model):  # a file is data: what it names is looked up, never imported
        _fail(where, "model", fields.model, "a network, not code to run; `slicewise capture` makes a graph of yours")
    if fields.strategy not in STRATEGIES:
        _fail(where, "strategy", fields.strategy, f"one of {', '.join(STRATEGIES)}")
    if fields.strategy == SERIAL.name and fields.devices != 1:
        _fail(where, "devices", fields.devices, f"1 for {SERIAL.name}")
    if fields.dtype and fields.dtype not in DTYPES:
        _fail(where, "dtype", fields.dtype, f"one of {', '.join(DTYPES)}")
    return Run(
        model=fields.model,
        strategy=fields.strategy,
        devices=fields.devices,
        batch=fields.batch,
        iteration_s=fields.iteration_s,
        split=_split(fields, where),
        dtype=fields.dtype or "fp32",
        input=_sizes(fields.input, "input", "3x224x224", where),
        compute_s=fields.compute_s,
        communication_s=fields.communication_s,
        memory_bytes=fields.memory_bytes,
    )


def _split(fields: RunFields, where: str) -> tuple[int, int] | None:
    sizes = _sizes(fields.split, "split", "4x4", where)
    if sizes is None:
        return None
    if len(sizes) != 2 or sizes[0] * sizes[1] != fields.devices:
        _fail(where, "split", fields.split, f"p1xp2 that makes {fields.devices} devices")
    return sizes[0], sizes[1]


def _sizes(text: str, name: str, example: str, where: str) -> tuple[int, ...] | None:
    if not text:
        return None
    if not re.fullmatch(r"([1-9][0-9]{0,8})(x[1-9][0-9]{0,8})*", text.lower()):
        _fail(where, name, text, f"sizes such as {example}")
    return tuple(map(int, text.lower().split("x")))


def _fail(where: str, name: str, value: object, wanted: str) -> NoReturn:
    raise RequestError(f"{where}: {name} is {shown(value)}; must be {wanted}")
