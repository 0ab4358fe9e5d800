"""A record judged by a projection: verdicts beside what was projected and measured."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.judge import judge
from slicewise.diagnosis.places import in_layer, stall_of
from slicewise.diagnosis.record import COMMUNICATION, Record
from slicewise.diagnosis.verdict import Fault, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    record: Record
    projected: Expectation
    verdicts: tuple[Verdict, ...]

    @property
    def as_projected(self) -> bool:
        return all(verdict.kind is Fault.NONE for verdict in self.verdicts)

    @property
    def measured(self) -> dict[str, Any]:
        """Medians over steps: of whole steps the slowest rank's, of a term each rank's."""
        step_s = self.record.seconds["step"].max(axis=1)
        return {
            "iteration_s": {
                "median": float(np.median(step_s)),
                "p10": float(np.quantile(step_s, 0.1)),
                "p90": float(np.quantile(step_s, 0.9)),
            },
            "steps": len(step_s),
            "first_step": self.record.steps[0],
            "ranks": None if self.record.ranks is None else list(self.record.ranks),
            "terms_s": {
                term: [float(value) for value in np.median(values, axis=0)]
                for term, values in self.record.seconds.items()
            },
        }

    def to_dict(self) -> dict[str, Any]:
        kind = self.record.kind
        return {
            "as_projected": self.as_projected,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "projected": self.projected.to_dict(),
            "measured": self.measured,
            "files": [
                {
                    "name": name,
                    "kind": kind.name,
                    "can_tell": list(kind.can_tell),
                    "cannot_tell": list(kind.cannot_tell),
                }
                for name in self.record.files
            ],
        }


def diagnosis_of(record: Record, projected: Expectation) -> Diagnosis:
    """The verdicts on `record`, the costliest first."""
    if record.stall is not None:
        return Diagnosis(record=record, projected=projected, verdicts=(stall_of(record.stall, projected),))
    found = [in_layer(verdict, record) for verdict in judge(record, projected)]
    return Diagnosis(record=record, projected=projected, verdicts=tuple(found))


def term_medians(record: Record) -> dict[str, float]:
    """Of each term what the slowest rank takes; communication as long as for the rank that comes last."""
    return {
        term: float(np.median(values.min(axis=1) if term in COMMUNICATION else values.max(axis=1)))
        for term, values in record.seconds.items()
    }
