"""The judgement: a step is taken apart, each part is compared with itself over time, then with the projection.

A part that rises within the run accuses itself, whatever was projected; what is there from the first step is held
against the projection's range. Ranks are held against each other, so an all too hopeful cost model accuses no rank.
"""

from dataclasses import replace

import numpy as np

from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.level import against_projection, as_projected
from slicewise.diagnosis.parts import Part, beyond_common, parts
from slicewise.diagnosis.record import COMMUNICATION, Record
from slicewise.diagnosis.series import Pattern, lasting, pattern, spread
from slicewise.diagnosis.verdict import Fault, Verdict

MATERIAL = 0.10  # of a step: smaller changes are nobody's business
BURST = 0.25  # of a step: what a single step must exceed the others by
BURSTS_LOSE = 0.05  # of all time, of compute twice that: rarer or smaller bursts are hiccups
TOGETHER = 0.05  # of all steps: what begins so close has one cause
MINOR = 0.6  # of the largest excess: what changes with it, and less, follows from it


def judge(record: Record, projected: Expectation) -> list[Verdict]:
    """What is wrong, the costliest first; one verdict "as projected" where nothing is."""
    record = record.whole() if projected.waits_inside else record
    step_s = record.seconds["step"].max(axis=1)
    quiet_s = float(np.quantile(step_s, 0.25))
    found, rest_s = [], step_s.copy()
    for part in parts(record, projected):
        seen = pattern(part.seconds, MATERIAL * quiet_s, BURST * quiet_s)
        verdict = _changed(part, seen, record, quiet_s) or _steady(part, record, quiet_s)
        if verdict is not None:
            found.append(verdict)
            rest_s -= np.maximum(part.seconds - seen.base, 0.0) if part.should_be is None else 0.0
    if any(verdict.kind is Fault.SLOW_RANK and len(verdict.ranks) == 1 for verdict in found):
        rest_s -= beyond_common(record, projected)
    found = _causes(found, len(record.steps))
    level = against_projection(record, projected, rest_s)
    found += [level] if level is not None else []
    return sorted(found, key=lambda verdict: -verdict.excess_s) or [as_projected(record, projected, step_s)]


def _changed(part: Part, seen: Pattern, record: Record, quiet_s: float) -> Verdict | None:
    """A part that rises within the run."""
    if part.should_be is not None:  # a rank is not to blame for what another is slower by
        seen = replace(seen, base=max(seen.base, part.should_be))
    if seen.shape == "steady" or seen.excess < MATERIAL * quiet_s:
        return None
    count = int(seen.raised.sum())
    if seen.shape in ("fell", "between") and count <= max(5, lasting(len(record.steps))):
        return None  # warming up, or a hiccup
    # compute has its ups and downs with whatever else a host does
    lose = BURSTS_LOSE if part.term in ("communication", "data") else 2 * BURSTS_LOSE
    if seen.shape == "bursts" and seen.lost_share < lose * quiet_s:
        return None
    fault = part.bursts if seen.shape == "bursts" else part.fault
    evidence = {
        "pattern": "until" if seen.shape == "fell" else seen.shape,
        "before_s": seen.base,
        "after_s": seen.level,
        "noise_s": seen.noise,
        "steps": count,
        "of_steps": len(record.steps),
    }
    if seen.shape != "since":
        evidence["last_step"] = record.steps[int(np.flatnonzero(seen.raised)[-1])]
    return _verdict(part, fault, record, seen, evidence)


def _steady(part: Part, record: Record, quiet_s: float) -> Verdict | None:
    """A part that should be nothing and is there from the first step."""
    if part.should_be is None:
        return None
    level, noise = float(np.median(part.seconds)), spread(part.seconds)
    # half of the steps may be anywhere; a rank that is slow is so in nearly all of them
    if np.quantile(part.seconds, 0.2) < part.should_be + MATERIAL / 2 * quiet_s or level < MATERIAL * quiet_s:
        return None
    count = len(record.steps)
    evidence = {
        "pattern": "always",
        "before_s": part.should_be,
        "after_s": level,
        "noise_s": noise,
        "steps": count,
        "of_steps": count,
    }
    always = Pattern(shape="since", base=part.should_be, level=level, noise=noise, raised=np.ones(count, bool))
    return _verdict(part, part.fault, record, always, evidence)


def _verdict(part: Part, fault: Fault, record: Record, seen: Pattern, evidence: dict[str, object]) -> Verdict:
    beside = seen.base if part.beside is None else float(np.median(part.beside[seen.raised]))
    beside = beside or float(np.median(record.seconds["step"]))  # of what was nothing before there is no multiple
    return Verdict(
        kind=fault,
        term=_heaviest(record, seen) if part.term == "communication" else part.term,
        ranks=part.ranks,
        since_step=record.steps[seen.first],
        factor=(beside + seen.excess) / beside,
        excess_s=seen.excess,
        evidence={**evidence, "beside_s": beside},
        alternatives=_alternatives(fault, part, record),
    )


def _alternatives(fault: Fault, part: Part, record: Record) -> tuple[Fault, ...]:
    if record.work is None and part.term == "step" and fault is not Fault.SLOW_RANK:
        unseen = () if "data" in record.seconds else (Fault.STAGING,)
        return tuple(
            kind for kind in (Fault.SLOW_RANK, Fault.SLOW_LINK, Fault.CONGESTION, *unseen) if kind is not fault
        )
    if fault in (Fault.SLOW_LINK, Fault.CONGESTION) and len(record.ranks or ()) < 2:
        return (Fault.SLOW_RANK,)  # nobody saw whether this rank waited for another
    return ()


def _heaviest(record: Record, seen: Pattern) -> str:
    """The communication term that rises most, where the file has several."""
    terms = [term for term in COMMUNICATION if term in record.seconds]
    if len(terms) == 1 or seen.raised.all():
        return terms[0] if len(terms) == 1 else "communication"

    def rise(term: str) -> float:
        values = record.seconds[term].min(axis=1)
        return float(np.median(values[seen.raised]) - np.median(values[~seen.raised]))

    return max(terms, key=rise)


def _causes(found: list[Verdict], steps: int) -> list[Verdict]:
    """Of what begins together the costliest is the cause; lesser changes are told with it."""
    causes: list[Verdict] = []
    for verdict in sorted(found, key=lambda verdict: -verdict.excess_s):
        near = max(2, round(TOGETHER * steps))
        for position, cause in enumerate(causes):
            since, other = cause.since_step, verdict.since_step
            together = since is not None and other is not None and abs(since - other) <= near
            if together and verdict.excess_s < MINOR * cause.excess_s:
                told = f"{verdict.kind} ({verdict.term}, +{verdict.excess_s:.3g} s)"
                causes[position] = replace(cause, with_it=(*cause.with_it, told))
                break
        else:
            causes.append(verdict)
    return causes
