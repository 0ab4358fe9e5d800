"""From values to pixels, and the values that an axis names."""

from dataclasses import dataclass
from math import ceil, floor, log10

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`low` is drawn at pixel `start`, `high` at `stop`; in between evenly, or evenly in the logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            share = log10(value / self.low) / log10(self.high / self.low) if self.high > self.low else 0.5
        else:
            share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + (self.stop - self.start) * share

    @property
    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else even_ticks(self.low, self.high)


def even_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values between two: `even_ticks(0, 31) == [0, 5, 10, 15, 20, 25, 30]`."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in _STEPS if unit * factor >= rough * 0.999)
    first = ceil(low / step - 1e-9)
    return [step * number for number in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there are few."""
    factors = (1, 2, 5) if high / low < 300 else (1,)
    found = [factor * 10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1) for factor in factors]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def wide(low: float, high: float) -> tuple[float, float]:
    """Bounds of a logarithmic axis with room around the values."""
    room = max((high / low) ** 0.06, 1.12)
    return low / room, high * room
