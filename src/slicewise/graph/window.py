"""Which input a part of the output needs: the geometry of a sliding window along one dim."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One spatial dim of a convolution or pooling layer."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    transposed: bool = False
    output_padding: int = 0
    wraps: bool = False  # of a roll: what it reads before the first position is the last ones

    @property
    def reach(self) -> int:
        """Positions that one window covers."""
        return self.dilation * (self.kernel - 1) + 1

    def needs(self, start: Any, stop: Any) -> tuple[Any, Any]:
        """The input positions that outputs [start, stop) read, before clipping at the borders.

        Plain:      output o reads o*s - p ... o*s - p + reach - 1.
        Transposed: input i writes i*s - p ... i*s - p + reach - 1, so output o reads the i with
                    o + p - (reach - 1) <= i*s <= o + p.
        Takes integers or integer arrays.
        """
        if self.transposed:
            low = -((self.reach - 1 - self.padding - start) // self.stride)
            return low, (stop - 1 + self.padding) // self.stride + 1
        return start * self.stride - self.padding, (stop - 1) * self.stride - self.padding + self.reach
