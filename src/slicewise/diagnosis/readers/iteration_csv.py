"""Iteration times as CSV: one column for the run, or one per rank.

    iteration_s        step,iteration_s        step,rank0_s,rank1_s
    0.0512             100,0.0512              100,0.0498,0.0511
    0.0508             101,0.0508              101,0.0501,0.0513

`step` is optional; without it steps count from 0. A single column of numbers needs no head.
"""

import re
from itertools import zip_longest

import numpy as np

from slicewise.diagnosis.record import FileKind, Record
from slicewise.errors import RequestError
from slicewise.formats.checking import checked
from slicewise.formats.files import number, parse_csv
from slicewise.formats.schema import Natural, Seconds
from slicewise.formats.words import shown

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
_RANK = re.compile(r"rank([0-9]{1,6})_s")


def read(text: str, name: str) -> Record:
    rows = parse_csv(text, name, RequestError)
    if not rows:
        raise RequestError(
            f"{name}: empty; a CSV of iteration times has a column iteration_s, or rank0_s, rank1_s, ..."
        )
    head = rows[0][1]
    if len(head) == 1 and not isinstance(number(head[0]), str):
        rows, head = [(0, ["iteration_s"]), *rows], ["iteration_s"]
    by_rank = [(int(match[1]), cell) for cell in head if (match := _RANK.fullmatch(cell))]
    known = {"step", "iteration_s", *(cell for _, cell in by_rank)}
    if not set(head) <= known or bool(by_rank) == ("iteration_s" in head):
        raise RequestError(
            f"{name}: columns {', '.join(map(shown, head[:8]))}; there must be iteration_s, or rank0_s, rank1_s, ..., "
            f"and there may be step"
        )
    columns = dict(sorted(by_rank)) or {0: "iteration_s"}
    if len(set(head)) < len(head) or len(columns) < len(by_rank):
        raise RequestError(f"{name}: a column stands twice in {', '.join(head[:8])}; leave one of them")
    steps: list[int] = []
    seconds = []
    for line, row in rows[1:]:
        where = f"{name}, line {line}"
        cells = {column: number(cell) for column, cell in zip_longest(head, row, fillvalue="")}
        step = checked(dict[str, Natural], {"step": cells.pop("step", len(steps))}, where)["step"]
        if steps and step <= steps[-1]:
            raise RequestError(f"{where}: step {step} comes after step {steps[-1]}; steps must grow")
        steps.append(step)
        taken = checked(dict[str, Seconds], cells, where)
        seconds.append([taken[column] for column in columns.values()])
    if not seconds:
        raise RequestError(f"{name}: no iteration times; there must be a row of seconds for each step")
    return Record(
        kind=BY_RANK if by_rank else WHOLE,
        files=(name,),
        steps=tuple(steps),
        ranks=tuple(columns) if by_rank else None,
        seconds={"step": np.array(seconds)},
    )
