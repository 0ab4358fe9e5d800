"""What can be wrong with a run, by name, with the numbers it rests on."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    SLOW_RANK = "slow rank"
    SLOW_LINK = "slow link"
    CONGESTION = "congestion bursts"
    STAGING = "input staging"
    COST_MODEL = "wrong cost model"
    STALL = "stall"  # no rank moves any more
    SLOWDOWN = "slowdown"  # of whole steps, by nobody knows what: the file has nothing else
    NONE = "as projected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`factor`: the term over what it was or should be; `excess_s`: what a raised step takes too long."""

    kind: Fault
    term: str  # step, data, compute, transfer, halo, reduce, sync, communication
    ranks: tuple[int, ...]
    since_step: int | None
    factor: float
    excess_s: float
    evidence: dict[str, Any]
    alternatives: tuple[Fault, ...] = ()  # what this kind of file cannot tell from it
    with_it: tuple[str, ...] = field(default=())  # what else changed at the same time, and less
    layer: str | None = None  # of a slow or stalled rank: where it loses most, or was last seen

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "term": self.term,
            "ranks": list(self.ranks),
            "since_step": self.since_step,
            "factor": self.factor,
            "excess_s": self.excess_s,
            "evidence": self.evidence,
            "alternatives": [fault.value for fault in self.alternatives],
            "with_it": list(self.with_it),
            "layer": self.layer,
        }
