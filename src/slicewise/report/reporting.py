"""Files -> sections -> a page, a text or a picture."""

from collections.abc import Callable, Sequence
from pathlib import Path

from slicewise.errors import InfeasibleError, RequestError, UnknownName
from slicewise.explaining.differences import compare
from slicewise.explaining.words import span
from slicewise.figures.frontier import frontier_figure
from slicewise.plans.plan import Plan
from slicewise.report.documents import Given, read_documents
from slicewise.report.html import html_page
from slicewise.report.markdown import markdown
from slicewise.report.oracle_section import oracle_section
from slicewise.report.pictures import as_png, check_png
from slicewise.report.plan_section import plan_section
from slicewise.report.run_section import agreement_section, diagnosis_section, run_section, trace_section
from slicewise.report.sections import Figure, Grid, Part, Section, Sentences
from slicewise.report.traces import step_of
from slicewise.report.validation import validation_section
from slicewise.units import seconds

FORMATS = ("html", "md", "svg", "png")
_MOST_CHANGES = 40


def report(
    paths: Sequence[Path],
    *,
    format: str = "html",
    figure: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> str | bytes:
    """What `slicewise report` writes. `figure`: of SVG and PNG, which; the first one by default."""
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS)
    if format == "png":
        check_png()
    alone = format in ("svg", "png")
    sections = sections_of(read_documents(paths), progress, brief=alone and figure in (None, "plan"))
    if alone:
        svg = _chosen(sections, figure).svg
        return svg if format == "svg" else as_png(svg)
    if figure is not None:
        raise RequestError(f"figure {figure!r}: a {format} report has them all; choose the format svg or png for one")
    title, lead = _heading(sections), f"Made from {', '.join(path.name for path in paths)}."
    return html_page(title, lead, sections) if format == "html" else markdown(title, lead, sections)


def sections_of(
    given: Given, progress: Callable[[str], None] = lambda _: None, *, brief: bool = False
) -> list[Section]:
    """Plans first, then projections, then what was measured. `brief`: of plans the first figure alone."""
    sections: list[Section] = []
    events = step_of([trace for _, trace in given.traces])
    alone = given.plans[0][1] if len(given.plans) == 1 else None
    for name, plan in given.plans:
        progress(f"drawing {name}")
        sections.append(plan_section(name, plan, events if plan is alone else (), brief=brief))
    if len(given.plans) > 1:
        sections.insert(0, _plans_section(given.plans))
    sections += [oracle_section(name, oracle, given.measured) for name, oracle in given.oracles]
    sections += [validation_section(name, found) for name, found in given.validations]
    sections += [run_section(name, run) for name, run in given.runs]
    sections += [diagnosis_section(name, found) for name, found in given.diagnoses]
    if together := agreement_section(given.runs):
        sections.append(together)
    if events and alone is None:
        sections.append(trace_section([name for name, _ in given.traces], events))
    return sections


def _heading(sections: Sequence[Section]) -> str:
    return sections[0].title if len(sections) == 1 else f"{sections[0].title}, and more"


def _chosen(sections: Sequence[Section], name: str | None) -> Figure:
    figures = [figure for section in sections for figure in section.figures]
    if name is None:
        return figures[0]
    for figure in figures:
        if figure.name == name:
            return figure
    raise UnknownName("figure", name, {figure.name for figure in figures})


def _plans_section(plans: Sequence[tuple[str, Plan]]) -> Section:
    """Several plans side by side: the frontier, and what the first two differ in."""
    known = [(name, plan) for name, plan in plans if {"iteration_s", "peak_memory_bytes"} <= set(plan.predicted)]
    points = [(name, plan.predicted.iteration_s, plan.predicted.peak_memory_bytes) for name, plan in known]
    parts: list[Part] = []
    if len(points) > 1:
        parts.append(Figure(name="frontier", svg=frontier_figure(points)))
    if len(plans) == 2:
        parts += _differences(*plans)
    return Section(title=f"{len(plans)} plans", parts=parts)


def _differences(one: tuple[str, Plan], other: tuple[str, Plan]) -> list[Part]:
    try:
        found = compare(one[1], other[1])
    except (RequestError, InfeasibleError) as error:
        return [Sentences(lines=[f"{one[0]} and {other[0]} cannot be compared layer by layer: {error}"])]
    rows = [(span(change.layers), change.before, change.after) for change in found.changes[:_MOST_CHANGES]]
    steps = " and ".join(
        f"{seconds(predicted['iteration_s'])} ({name})"
        for (name, _), predicted in zip((one, other), found.predicted, strict=True)
    )
    told = Sentences(lines=[f"A step takes {steps}."])
    if not rows:
        return [told, Sentences(lines=["Both slice every layer alike."])]
    note = f"and {len(found.changes) - len(rows)} more" if len(found.changes) > len(rows) else ""
    return [told, Grid(title="What they slice differently", head=("layers", one[0], other[0]), rows=rows, note=note)]
