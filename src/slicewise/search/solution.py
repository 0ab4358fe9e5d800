"""What a search returns."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """One choice per node, and what it costs. Searches here are exact: their solutions are optimal."""

    choice: tuple[int, ...]
    cost: float
    method: str
    remaining_nodes: int
