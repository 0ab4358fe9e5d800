"""The JSON of `slicewise run`: every term of every step on every rank."""

from typing import Any

import numpy as np

from slicewise.diagnosis.record import FileKind, Record
from slicewise.errors import RequestError

KIND = FileKind(
    name="JSON of `slicewise run`",
    can_tell=(
        "a slow rank from a rank that waits for it",
        "a slow link or congestion from slow compute",
        "waiting for data from both (with --data)",
        "since which step, and which term",
    ),
    cannot_tell=(
        "which of several links is slow: a collective is as slow as the slowest it uses",
        "a link that is slow from the first step from one that is described as too fast",
        "all ranks slow alike from the first step from a wrong cost model",
        "why a rank is slow: another process, heat, a throttled clock",
        "what goes on inside a pipeline: its ranks wait for each other unseen",
    ),
)


def read(document: dict[str, Any], name: str) -> Record:
    table = document.get("steps_s")
    if not isinstance(table, dict) or "step" not in table:
        raise RequestError(f"{name}: no seconds by step (`steps_s`); measure again with this version's `slicewise run`")
    try:
        seconds = {term: np.array(rows, dtype=np.float64) for term, rows in table.items()}
        (shape,) = {values.shape for values in seconds.values()}
        steps, ranks = shape
    except (ValueError, TypeError) as error:
        raise RequestError(f"{name}: `steps_s` is no table of steps x ranks for every term") from error
    return Record(
        kind=KIND,
        files=(name,),
        steps=tuple(range(steps)),
        ranks=tuple(range(ranks)),
        seconds=seconds,
        facts={key: document[key] for key in ("model", "devices", "batch") if key in document},
    )
