"""Robust statistics of one number per step: its level, its noise, where it changes for good, where it bursts.

since      ______------      between  ____----____      bursts  __-___--__-_      steady  ____________
"""

from dataclasses import dataclass
from heapq import heappush, heappushpop

import numpy as np
from numpy.typing import NDArray

from slicewise.diagnosis.record import Floats

GAUSSIAN = 1.4826  # times the median absolute deviation is the standard deviation of normal noise
SIGMAS = 4.0  # what a lasting change must exceed the noise by
BURST_SIGMAS = 6.0  # and a single step
SEPARATED = 0.8  # share of steps on the right side of the middle, before and after a change
LEAST = 3  # steps before a change, and in bursts


def lasting(steps: int) -> int:
    """How many of so many steps a change must last: hosts have hiccups that take a second or two."""
    return max(LEAST, min(steps // 6, 30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """`base` is the level of quiet steps, `level` that of raised ones; `raised` says which are."""

    shape: str  # steady, since, between, bursts, fell
    base: float
    level: float
    noise: float
    raised: NDArray[np.bool_]

    @property
    def excess(self) -> float:
        return self.level - self.base

    @property
    def first(self) -> int:
        """The first raised step."""
        return int(np.flatnonzero(self.raised)[0])

    @property
    def lost_share(self) -> float:
        """Mean excess over all steps."""
        return float(self.excess * self.raised.mean())


def spread(values: Floats) -> float:
    """Standard deviation of noise, outliers ignored."""
    return float(GAUSSIAN * np.median(np.abs(values - np.median(values))))


def pattern(values: Floats, floor: float, burst_floor: float) -> Pattern:
    """What a series does; a change smaller than `floor`, or a burst smaller than `burst_floor`, is none."""
    changed = _lasting(values, floor)
    if changed is not None:
        return changed
    base = float(np.median(values))
    # the noise of quiet steps, below the median: bursts are above it
    noise = float((base - np.quantile(values, 0.1)) / 1.2816)
    raised = values > base + max(burst_floor, BURST_SIGMAS * noise)
    episodes = int(np.count_nonzero(np.diff(raised.astype(int), prepend=0) == 1))
    if raised.sum() < LEAST:
        return Pattern(shape="steady", base=base, level=base, noise=noise, raised=np.zeros(len(values), bool))
    shape = "bursts" if episodes > 1 else "between"
    return Pattern(shape=shape, base=base, level=float(np.median(values[raised])), noise=noise, raised=raised)


def _lasting(values: Floats, floor: float) -> Pattern | None:
    """The split into two levels with the smallest sum of absolute deviations from their medians, where it is one."""
    count = len(values)
    least_after = lasting(count)
    if count < LEAST + least_after:
        return None
    deviations = _prefix_deviations(values) + _prefix_deviations(values[::-1])[::-1]
    split = LEAST + int(np.argmin(deviations[LEAST : count - least_after + 1]))
    before, after = values[:split], values[split:]
    low, high = float(np.median(before)), float(np.median(after))
    noise = spread(np.concatenate([before - low, after - high]))
    middle, sign = (low + high) / 2, 1 if high > low else -1
    sides = [np.mean(sign * (middle - before) > 0), np.mean(sign * (after - middle) > 0)]
    if abs(high - low) < max(floor, SIGMAS * noise) or min(sides) < SEPARATED:
        return None
    raised = np.arange(count) >= split
    if high > low:
        return Pattern(shape="since", base=low, level=high, noise=noise, raised=raised)
    return Pattern(shape="fell", base=high, level=low, noise=noise, raised=~raised)


def _prefix_deviations(values: Floats) -> Floats:
    """Of the first 0, 1, ... all values: the sum of absolute deviations from their median. Two heaps, n log n."""
    below: list[float] = []  # negated: the largest first
    above: list[float] = []
    below_sum = above_sum = 0.0
    result = [0.0]
    for value in values.tolist():
        if len(below) > len(above):
            moved = -heappushpop(below, -value)
            below_sum += value - moved
            heappush(above, moved)
            above_sum += moved
        else:
            moved = heappushpop(above, value)
            above_sum += value - moved
            heappush(below, -moved)
            below_sum += moved
        median = -below[0]
        result.append((above_sum - median * len(above)) + (median * len(below) - below_sum))
    return np.array(result)
