"""Iteration times as CSV: one column for the run, or one per rank.

    iteration_s        step,iteration_s        step,rank0_s,rank1_s
    0.0512             100,0.0512              100,0.0498,0.0511
    0.0508             101,0.0508              101,0.0501,0.0513

`step` is optional; without it steps count from 0. A single column of numbers needs no head.
"""

import csv
import re

import numpy as np

from slicewise.diagnosis.record import FileKind, Record
from slicewise.errors import RequestError

_TELLS = ("whether whole steps are as projected", "since which step they are slower, or in which bursts")
_HIDES = (
    "compute from communication from waiting for data",
    "a wrong cost model from a fault that is there from the first step",
)
WHOLE = FileKind(
    name="iteration-time CSV, one column", can_tell=_TELLS, cannot_tell=(*_HIDES, "which rank is the slow one")
)
BY_RANK = FileKind(
    name="iteration-time CSV, a column per rank",
    can_tell=(*_TELLS, "a slow rank, if each rank's own time was taken before it waits for the others"),
    cannot_tell=(*_HIDES, "which rank is the slow one, if times were taken after a collective: all wait for it alike"),
)
_RANK = re.compile(r"rank(\d+)_s")


def read(text: str, name: str) -> Record:
    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    if not rows:
        raise RequestError(
            f"{name}: empty; a CSV of iteration times has a column iteration_s, or rank0_s, rank1_s, ..."
        )
    head = [cell.strip() for cell in rows[0]]
    if len(head) == 1 and _number(head[0]) is not None:
        rows, head = [["iteration_s"], *rows], ["iteration_s"]
    columns = {int(match[1]): number for number, cell in enumerate(head) if (match := _RANK.fullmatch(cell))}
    unknown = [cell for cell in head if cell not in ("step", "iteration_s") and not _RANK.fullmatch(cell)]
    if unknown or bool(columns) == ("iteration_s" in head):
        raise RequestError(
            f"{name}: columns {', '.join(head)}; there must be iteration_s, or rank0_s, rank1_s, ..., "
            f"and there may be step"
        )
    chosen = [columns[rank] for rank in sorted(columns)] or [head.index("iteration_s")]
    seconds = np.array([[_cell(row, column, line, name) for column in chosen] for line, row in enumerate(rows[1:], 2)])
    if not len(seconds) or (seconds <= 0).any():
        raise RequestError(f"{name}: iteration times must be positive seconds, one row per step")
    steps = tuple(range(len(seconds)))
    if "step" in head:
        steps = tuple(int(_cell(row, head.index("step"), line, name)) for line, row in enumerate(rows[1:], 2))
    return Record(
        kind=BY_RANK if columns else WHOLE,
        files=(name,),
        steps=steps,
        ranks=tuple(sorted(columns)) if columns else None,
        seconds={"step": seconds},
    )


def _cell(row: list[str], column: int, line: int, name: str) -> float:
    value = _number(row[column]) if column < len(row) else None
    if value is None:
        told = row[column] if column < len(row) else "nothing"
        raise RequestError(f"{name}, line {line}: {told!r} is no number")
    return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
