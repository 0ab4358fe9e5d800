"""The level of a run against the range of its projection."""

import numpy as np

from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.parts import lower_median
from slicewise.diagnosis.record import COMMUNICATION, Floats, Record
from slicewise.diagnosis.series import spread
from slicewise.diagnosis.verdict import Fault, Verdict


def against_projection(record: Record, projected: Expectation, rest_s: Floats) -> Verdict | None:
    """The steps without what is accused already, against the projected range."""
    level, noise = float(np.median(rest_s)), spread(rest_s)
    error = noise / np.sqrt(len(rest_s))
    if projected.step.low_s - 3 * error <= level <= projected.step.high_s + 3 * error:
        return None
    excess = level - projected.step.iteration_s
    evidence: dict[str, object] = {
        "pattern": "always",
        "before_s": projected.step.iteration_s,
        "after_s": level,
        "low_s": projected.step.low_s,
        "high_s": projected.step.high_s,
        "noise_s": noise,
        "origin": projected.step.origin,
    }
    fault, term, factor = Fault.COST_MODEL, "step", level / projected.step.iteration_s
    alternatives: tuple[Fault, ...] = (Fault.SLOW_RANK, Fault.SLOW_LINK, Fault.STAGING)
    moving, work = record.communication, record.work
    if moving is not None and work is not None:
        terms = _measured_terms(record)
        off = {name: terms[name] - _projected_term(projected, name) for name in terms}
        evidence["off_s"] = off
        allowed = projected.step.high_s / projected.step.iteration_s
        worked_s, moved_s = float(np.median(lower_median(work))), float(np.median(moving))
        moved = moved_s - projected.step.communication_s
        term = max(off, key=lambda name: off[name] if excess > 0 else -off[name])
        # all ranks slow alike look the same
        alternatives = (Fault.SLOW_RANK,) if excess > 0 else ()
        in_links = moved > max(worked_s - projected.work_s, 0.0) and worked_s <= allowed * projected.work_s
        if excess > 0 and in_links and moved_s > allowed * projected.step.communication_s:
            # from the first step on, a slow link and a link described as too fast look the same
            waited = (Fault.SLOW_RANK,) if len(record.ranks or ()) < 2 else ()
            fault, alternatives = Fault.SLOW_LINK, (Fault.COST_MODEL, *waited)
            factor = moved_s / projected.step.communication_s if projected.step.communication_s else factor
            excess = moved
    return Verdict(
        kind=fault,
        term=term,
        ranks=record.ranks or (),
        since_step=record.steps[0],
        factor=factor,
        excess_s=abs(excess),
        evidence=evidence,
        alternatives=alternatives,
    )


def _measured_terms(record: Record) -> dict[str, float]:
    """Medians: of the common work where ranks differ, of the moving seconds as they are."""
    result = {}
    for term, values in record.seconds.items():
        if term in COMMUNICATION:
            result[term] = float(np.median(values.min(axis=1)))
        elif term in ("compute", "update"):
            result[term] = float(np.median(lower_median(values)))
    return result


def _projected_term(projected: Expectation, term: str) -> float:
    return projected.step.communication_s if term == "communication" else projected.terms[term]


def as_projected(record: Record, projected: Expectation, step_s: Floats) -> Verdict:
    level = float(np.median(step_s))
    return Verdict(
        kind=Fault.NONE,
        term="step",
        ranks=record.ranks or (),
        since_step=None,
        factor=level / projected.step.iteration_s,
        excess_s=0.0,
        evidence={
            "before_s": projected.step.iteration_s,
            "after_s": level,
            "low_s": projected.step.low_s,
            "high_s": projected.step.high_s,
            "noise_s": spread(step_s),
            "steps": len(record.steps),
        },
    )
