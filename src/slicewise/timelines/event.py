"""What every timeline is made of, predicted or measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slicewise.terms import MOVING

LANES = ("step", "compute", *MOVING)  # from top to bottom


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a rank did, or is predicted to do, for a while."""

    rank: int
    lane: str
    name: str
    start_s: float
    stop_s: float
    details: Mapping[str, Any] = field(default_factory=dict)
