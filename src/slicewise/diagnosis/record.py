"""What files tell about a run: seconds by term, step and rank, whatever of it they know.

step         the whole step, without waiting for its batch where that is known
data         waiting for the batch
compute      the rank's own work
wait         for ranks that come later to a collective
transfer halo reduce sync, or only their sum: communication
update       the optimizer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import RequestError
from slicewise.terms import MOVING

Floats = NDArray[np.float64]
COMMUNICATION = (*MOVING, "communication")  # the last where a file does not tell the others apart


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """A kind of measurement, and what it can and cannot tell apart."""

    name: str
    can_tell: tuple[str, ...]
    cannot_tell: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """Where a run came to a stop: the ranks that the others wait for, and where the first of them was last seen."""

    waited_s: float
    behind: tuple[int, ...]
    step: int
    doing: str
    layer: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`seconds[term]` is an array of steps x ranks; `ranks` is None where a file has one column for all of them."""

    kind: FileKind
    files: tuple[str, ...]
    steps: tuple[int, ...]  # as the file counts them
    ranks: tuple[int, ...] | None
    seconds: Mapping[str, Floats]
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the file says of model, devices, batch
    layers: Mapping[str, Sequence[float]] = field(default_factory=dict)  # seconds of compute a step, for each rank
    stall: Stalled | None = None  # how the run ended

    def __post_init__(self) -> None:
        shape = (len(self.steps), len(self.ranks or (0,)))
        assert all(values.shape == shape for values in self.seconds.values()), shape

    @property
    def communication(self) -> Floats | None:
        """Seconds of each step in which data moves; for all ranks the same, as far as the file can tell."""
        moving = [self.seconds[term] for term in COMMUNICATION if term in self.seconds]
        return np.sum(moving, axis=0).min(axis=1) if moving else None

    @property
    def work(self) -> Floats | None:
        """Each rank's own work, update included."""
        if "compute" not in self.seconds:
            return None
        return self.seconds["compute"] + self.seconds.get("update", 0.0)

    def whole(self) -> "Record":
        """As one column: the slowest rank's step, the longest wait for data."""
        kept = {term: self.seconds[term].max(axis=1)[:, None] for term in ("step", "data") if term in self.seconds}
        return replace(self, ranks=None, seconds=kept)


def joined(records: Sequence[Record]) -> Record:
    """Files of the same run, each with ranks of its own, as one record."""
    kinds = sorted({record.kind.name for record in records})
    if len(kinds) > 1:
        raise RequestError(f"`measured`: files of one kind at a time (got {' and '.join(kinds)})")
    first, files = records[0], tuple(name for record in records for name in record.files)
    if len(records) == 1:
        return first
    numbered = [
        record if record.ranks is not None else replace(record, ranks=(number,))
        for number, record in enumerate(records)
    ]
    ranks = [rank for record in numbered for rank in record.ranks or ()]
    if len(set(ranks)) < len(ranks):
        twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
        raise RequestError(
            f"`measured`: rank {twice[0]} is in more than one of {', '.join(files)}; give files of one run, each with "
            f"other ranks"
        )
    shared = [step for step in first.steps if all(step in record.steps for record in numbered)]
    if not shared:
        raise RequestError(f"`measured`: {', '.join(files)} have no step in common")
    rows = [[record.steps.index(step) for step in shared] for record in numbered]
    order = np.argsort(ranks)
    terms = [term for term in first.seconds if all(term in record.seconds for record in numbered)]
    seconds = {
        term: np.concatenate([r.seconds[term][row] for r, row in zip(numbered, rows, strict=True)], axis=1)[:, order]
        for term in terms
    }
    return Record(
        kind=first.kind,
        files=files,
        steps=tuple(shared),
        ranks=tuple(sorted(ranks)),
        seconds=seconds,
        facts=first.facts,
    )


def separated(inside: Floats) -> tuple[Floats, Floats]:
    """(moving, waiting) of the seconds in collectives, [..., rank].

    Moving takes as long as for the rank that comes last, which spends the fewest seconds; the others wait for it.
    """
    moving = np.broadcast_to(inside.min(axis=-1, keepdims=True), inside.shape)
    return moving, inside - moving
