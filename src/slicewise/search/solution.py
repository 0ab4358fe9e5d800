"""What a search returns."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """One choice per node, what it costs, and a bound that no choice can go below."""

    choice: tuple[int, ...]
    cost: float
    lower: float
    method: str
