"""Straight lines through what was timed, none of whose terms is negative.

minimise  sum over points of (line - seconds)^2 / (line * seconds)

Every size weighs alike, and twice too much as much as half of it. In rounds of least squares, whose weights

    w = (before + seconds) / (before^2 * seconds)

make the slopes of both sums equal at the line of the round before. With so few terms, a round's optimum is found by
trying every set of them: the best one without a negative factor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.lines import TERMS, Line

_ROUNDS = 15
_SHORTEST_S = 1e-9
_FARTHEST = 20.0  # times too little: no point weighs more than one so far off


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One layer, timed."""

    kind: str
    direction: str
    seconds: float
    flops: float = 0.0
    items: float = 0.0
    weights: float = 0.0
    calls: float = 1.0

    @property
    def row(self) -> tuple[float, ...]:
        return self.calls, self.flops, self.items, self.weights


def fitted_line(points: Sequence[Point]) -> Line:
    rows = np.array([point.row for point in points])
    seconds = np.array([max(point.seconds, _SHORTEST_S) for point in points])
    found, before = np.zeros(len(TERMS)), seconds
    for _ in range(_ROUNDS):
        scale = before * np.sqrt(seconds / (before + seconds))
        found = _least_squares(rows / scale[:, None], seconds / scale)
        before = np.maximum(rows @ found, seconds / _FARTHEST)
    return Line(**dict(zip(TERMS, map(float, found), strict=True)))


def _least_squares(design: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without a negative factor."""
    best, least = np.zeros(design.shape[1]), float((wanted**2).sum())
    for count in range(1, min(design.shape) + 1):
        for chosen in combinations(range(design.shape[1]), count):
            columns = list(chosen)
            found = np.linalg.lstsq(design[:, columns], wanted, rcond=None)[0]
            error = float(((design[:, columns] @ found - wanted) ** 2).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                best, least = np.zeros(design.shape[1]), error
                best[columns] = found
    return best


def on_line_s(line: Line, point: Point) -> float:
    terms: list[float] = [getattr(line, name) * value for name, value in zip(TERMS, point.row, strict=True)]
    return sum(terms)


def fitted_lines(points: Sequence[Point]) -> dict[str, dict[str, Line]]:
    """One per kind and direction."""
    found: dict[str, dict[str, Line]] = {}
    for kind, direction in dict.fromkeys((point.kind, point.direction) for point in points):
        own = [point for point in points if (point.kind, point.direction) == (kind, direction)]
        found.setdefault(kind, {})[direction] = fitted_line(own)
    return found
