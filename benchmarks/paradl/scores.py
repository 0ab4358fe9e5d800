"""How near projections are, and the tables that say so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from slicewise.fitting.runs import Run


@dataclass(frozen=True, slots=True)
class Score:
    """Projected and measured seconds of some rows."""

    pairs: tuple[tuple[float, float], ...]

    @property
    def accuracy(self) -> float:
        """The mean of 1 - |projected - measured| / measured."""
        return sum(accuracy(*pair) for pair in self.pairs) / len(self.pairs)

    @property
    def log_ratio(self) -> float:
        """The mean of |log(projected / measured)|."""
        return sum(abs(log(projected / measured)) for projected, measured in self.pairs) / len(self.pairs)

    def __str__(self) -> str:
        return f"{self.accuracy:.1%} ({self.log_ratio:.3f})" if self.pairs else "-"


def accuracy(projected: float, measured: float) -> float:
    return 1 - abs(projected - measured) / measured


def score(runs: Iterable[Run], projected: Mapping[Run, float]) -> Score:
    """Of the runs that somebody projected."""
    return Score(tuple((projected[run], run.iteration_s) for run in runs if run in projected))


def by_strategy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.strategy, []).append(run)
    return found


def nearest_smaller(run: Run, known: Iterable[Run]) -> float | None:
    """What the same bar measured at the largest smaller count."""
    same = [other for other in known if (other.model, other.strategy) == (run.model, run.strategy)]
    smaller = [other for other in same if other.devices < run.devices]
    return max(smaller, key=lambda other: other.devices).iteration_s if smaller else None
