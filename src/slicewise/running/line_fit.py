"""Straight lines through what was timed, none of whose terms is negative.

minimise  sum over points of ((line - seconds) / seconds)^2        every size weighs alike

With so few terms the optimum is found by trying every set of them: least squares on a set, if no factor is negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from slicewise.cluster.lines import TERMS, Line


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
    seconds = np.array([max(point.seconds, 1e-9) for point in points])
    design, wanted = rows / seconds[:, None], np.ones(len(points))
    best, least = np.zeros(len(TERMS)), float(len(points))
    for count in range(1, min(len(TERMS), len(points)) + 1):
        for chosen in combinations(range(len(TERMS)), count):
            columns = list(chosen)
            found = np.linalg.lstsq(design[:, columns], wanted, rcond=None)[0]
            error = float(((design[:, columns] @ found - wanted) ** 2).sum())
            if (found >= 0).all() and error < least * (1 - 1e-9):
                best, least = np.zeros(len(TERMS)), error
                best[columns] = found
    return Line(**dict(zip(TERMS, map(float, best), strict=True)))


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
