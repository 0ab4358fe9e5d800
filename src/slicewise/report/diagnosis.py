"""What a diagnosis says to people: a sentence per verdict, a table of terms, and what the files cannot tell."""

from slicewise.diagnosis.diagnosing import Asked
from slicewise.diagnosis.diagnosis import Diagnosis, term_medians
from slicewise.diagnosis.verdict import Fault, Verdict
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import seconds


def show_diagnosis(asked: Asked, found: Diagnosis) -> None:
    page = Page()
    record, projected = found.record, found.projected
    ranks = "all ranks together" if record.ranks is None else f"{len(record.ranks)} of {asked.devices} ranks"
    page.say(
        (asked.model, "bold"),
        " on ",
        (asked.cluster, "bold"),
        f": {asked.devices} devices, batch {asked.batch}; measured: {len(record.steps)} steps of {ranks}, "
        f"{record.kind.name}",
    )
    for verdict in found.verdicts:
        color = "green" if verdict.kind is Fault.NONE else "red"
        page.say((str(verdict.kind), f"bold {color}"), f": {sentence(verdict)}")
    table = Table("per step", "projected", "measured", "measured / projected")
    expected = {**projected.terms, "communication": projected.step.communication_s, "step": projected.step.iteration_s}
    medians = term_medians(record)
    for term in [term for term in medians if term != "step"] + ["step"]:
        measured, wanted = medians[term], expected.get(term)
        if max(measured, wanted or 0.0) < 1e-7:
            continue
        ratio = f"{measured / wanted:.2f}" if wanted and wanted > 1e-7 else ""
        name = {"data": "waiting for data", "wait": "waiting for ranks", "sync": "sync (not hidden)"}.get(term, term)
        style = "bold" if term == "step" else ""
        table.add_row(name, "" if wanted is None else seconds(wanted), seconds(measured), ratio, style=style)
    told = (
        f"medians of the rank that takes longest; projected steps lie between {seconds(projected.step.low_s)} and "
        f"{seconds(projected.step.high_s)} ({projected.step.origin})"
    )
    page.show(table, Prose(told, style="dim"))
    page.say(("this kind of file can tell: ", "dim"), "; ".join(record.kind.can_tell))
    page.say(("it cannot tell: ", "dim"), "; ".join(record.kind.cannot_tell))


def sentence(verdict: Verdict) -> str:
    """What the verdict rests on."""
    if verdict.kind is Fault.STALL:
        return _finding(verdict)
    parts = [_finding(verdict) + _when(verdict), f"noise of a step {seconds(verdict.evidence['noise_s'])}"]
    if verdict.alternatives:
        parts.append(f"it could also be: {', '.join(verdict.alternatives)}")
    if verdict.with_it:
        parts.append(f"with it, and less: {', '.join(verdict.with_it)}")
    return "; ".join(parts)


def _finding(verdict: Verdict) -> str:
    evidence, factor = verdict.evidence, f"{verdict.factor:.2f} times"
    before, after = seconds(evidence["before_s"]), seconds(evidence["after_s"])
    match verdict.kind:
        case Fault.SLOW_RANK:
            own, other = seconds(evidence["beside_s"] + verdict.excess_s), seconds(evidence["beside_s"])
            if len(verdict.ranks) == 1:
                where = f", most of it in {verdict.layer}" if verdict.layer else ""
                told = f"{_who(verdict)} takes {factor} as long over its work as the others"
                return f"{told}, {own} against {other}{where}"
            return f"{_who(verdict)} take {factor} as long over their work as before, {own} against {other}"
        case Fault.SLOW_LINK if evidence["pattern"] == "always":
            return f"{verdict.term} takes {factor} as long as projected; steps {after} instead of {before}"
        case Fault.SLOW_LINK:
            return f"{verdict.term} takes {factor} as long, {after} instead of {before}"
        case Fault.CONGESTION:
            return f"{verdict.term} takes {after} instead of {before}, now and then"
        case Fault.STAGING:
            return f"{_who(verdict)} {'wait' if len(verdict.ranks) > 1 else 'waits'} {after} for a batch"
        case Fault.COST_MODEL:
            told = f"steps take {after}, {factor} the projected {before}, from the first step and on all ranks alike"
            return told if verdict.term == "step" else f"{told}; most of it is {verdict.term}"
        case Fault.STALL:
            return str(evidence["told"])
        case Fault.SLOWDOWN:
            return f"steps take {after} instead of {before}"
        case Fault.NONE:
            return f"steps take {after}, {factor} the projected {before}, inside its range"


def _who(verdict: Verdict) -> str:
    if not verdict.ranks:
        return "the run"
    return f"rank{'s' if len(verdict.ranks) > 1 else ''} {', '.join(map(str, verdict.ranks))}"


def _when(verdict: Verdict) -> str:
    evidence, since = verdict.evidence, verdict.since_step
    pattern = evidence.get("pattern")
    if pattern == "since":
        return f", since step {since}"
    if pattern in ("between", "until"):
        return f", from step {since} to step {evidence['last_step']}"
    if pattern == "bursts":
        return f", in {evidence['steps']} of {evidence['of_steps']} steps, first in step {since}"
    return ", from the first step" if pattern == "always" and verdict.kind is not Fault.COST_MODEL else ""
