"""Measured runs as sections: verdicts, and what was predicted beside what was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slicewise.diagnosis.record import COMMUNICATION
from slicewise.diagnosis.verdict import Fault, Verdict
from slicewise.errors import RequestError
from slicewise.figures.agreement import agreement_figure, scatter_figure
from slicewise.figures.timeline import timeline_figure
from slicewise.report.diagnosis import sentence
from slicewise.report.document_files import DiagnosisFields, RunFields
from slicewise.report.documents import plain
from slicewise.report.sections import Facts, Figure, Part, Section, Sentences
from slicewise.terms import LAYER_TERMS
from slicewise.timelines.event import Event
from slicewise.units import amount, seconds


def run_section(source: str, run: RunFields) -> Section:
    measured = {term.name: max(0.0, getattr(run, f"{term.name}_s")) for term in LAYER_TERMS}
    measured["step"] = run.iteration_s.median
    predicted = _predicted(run.predicted)
    spread = run.iteration_s
    items = [("measured step", seconds(spread.median))]
    if "step" in predicted:
        items += [
            ("predicted step", seconds(predicted["step"])),
            ("measured / predicted", f"{spread.median / predicted['step']:.2f}"),
        ]
    items += [
        ("memory per device", amount(max(run.peak_memory_bytes, default=0), "B")),
        ("sent per step", amount(run.bytes_moved, "B")),
    ]
    parts: list[Part] = [Facts(items=items)]
    if run.check is not None:
        told = "equal to" if run.check.get("passed") is True else "NOT EQUAL to"
        parts.append(Sentences(lines=[f"Loss and gradients are {told} those of one device."]))
    if spread.p10 and spread.p90:
        parts.append(Sentences(lines=[f"Eight of ten steps took {seconds(spread.p10)} to {seconds(spread.p90)}."]))
    parts.append(Figure(name="agreement", svg=agreement_figure(predicted, measured)))
    title = f"A run of {run.model}: {run.devices} ranks, batch {run.batch}, {run.dtype}"
    return Section(title=title, parts=parts, source=source)


def _predicted(fields: Mapping[str, Any]) -> dict[str, float]:
    """Of a prediction's fields: what a step waits for, by term."""
    names = {term.name: f"{term.waited}_s" for term in LAYER_TERMS} | {"step": "iteration_s"}
    found = {name: fields.get(field) for name, field in names.items()}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float) and value >= 0}


def diagnosis_section(source: str, found: DiagnosisFields) -> Section:
    measured = {
        term: float(np.min(values) if term in COMMUNICATION else np.max(values))
        for term, values in found.measured.terms_s.items()
        if values
    }
    measured["step"] = found.measured.iteration_s.median
    projected = {term.name: found.projected.get(f"{term.name}_s", 0.0) for term in LAYER_TERMS}
    projected["step"] = found.projected.get("iteration_s", 0.0)
    known = {name: float(value) for name, value in projected.items() if isinstance(value, int | float)}
    parts: list[Part] = [
        Facts(items=[("verdict", ", ".join(verdict.kind for verdict in found.verdicts))]),
        Sentences(lines=[_sentence(verdict, source) for verdict in map(plain, found.verdicts)], listed=True),
        Figure(name="agreement", svg=agreement_figure(known, measured)),
    ]
    title = f"Diagnosis of {found.model} on {found.cluster}: {found.devices} devices, batch {found.batch}"
    return Section(title=title, parts=parts, source=source)


def _sentence(fields: dict[str, Any], source: str) -> str:
    try:
        verdict = Verdict(
            kind=Fault(fields["kind"]),
            term=fields["term"],
            ranks=tuple(fields["ranks"]),
            since_step=fields["since_step"],
            factor=fields["factor"],
            excess_s=fields["excess_s"],
            evidence=fields["evidence"],
            alternatives=tuple(map(Fault, fields["alternatives"])),
            with_it=tuple(fields["with_it"]),
        )
        return f"{verdict.kind}: {sentence(verdict)}"
    except (KeyError, ValueError, TypeError) as error:
        raise RequestError(f"{source}: a verdict that this version cannot read ({error})") from error


def agreement_section(runs: Sequence[tuple[str, RunFields]]) -> Section | None:
    """Of several runs, where they lie about the diagonal."""
    points = []
    for source, run in runs:
        predicted = _predicted(run.predicted).get("step")
        if predicted:
            points.append((f"{run.model} on {run.devices} ({source})", predicted, run.iteration_s.median))
    if len(points) < 2:
        return None
    return Section(title="All runs", parts=[Figure(name="scatter", svg=scatter_figure(points))])


def trace_section(names: Sequence[str], events: Sequence[Event]) -> Section:
    figure = Figure(name="timeline", svg=timeline_figure([], events))
    return Section(title="A measured step over time", parts=[figure], source=", ".join(names))
