"""What each mesh axis slices, from the first layer to the last."""

from itertools import groupby
from math import log2
from typing import TYPE_CHECKING

from slicewise.figures.chart import WIDTH, heading, legend
from slicewise.figures.colours import DIM_WORDS, GREY, dim_colour, ink
from slicewise.figures.runs import counted, modules, runs
from slicewise.figures.steps import draw_steps, step_rows
from slicewise.figures.svg import Drawing, text_width
from slicewise.graph.dims import Dim
from slicewise.partition.spelling import spelled
from slicewise.units import seconds

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

_ROW, _PAD, _GAP = 28, 16, 1.5
_Span = tuple[float, float, list[str]]  # from, to, layers


def plan_figure(plan: "Plan") -> str:
    """A plan at one look: how each layer is sliced, and where each strategy's time goes."""
    drawing = Drawing()
    height = draw_slicings(drawing, plan, 0.0, WIDTH)
    height += draw_steps(drawing, step_rows(plan), height, WIDTH)
    return drawing.svg(WIDTH, height, _label(plan))


def slicings_figure(plan: "Plan") -> str:
    drawing = Drawing()
    return drawing.svg(WIDTH, draw_slicings(drawing, plan, 0.0, WIDTH), _label(plan))


def _label(plan: "Plan") -> str:
    told = "; ".join(f"{counted(names)}: {spelled(plan.slicings[names[0]], plan.axes)}" for names in runs(plan)[:40])
    step = f", {seconds(plan.predicted.iteration_s)} per step" if "iteration_s" in plan.predicted else ""
    return f"{plan.model} on {plan.cluster}, {plan.devices} devices, batch {plan.batch}{step}. Slicings: {told}"


def draw_slicings(drawing: Drawing, plan: "Plan", top: float, width: float) -> float:
    """A row per mesh axis. A bar goes on as long as its axis slices the same dim; returns the height."""
    axes = [f"{name} (x{size})" for name, size in plan.axes.items()] or ["one device"]
    left = _PAD + max(text_width(name, 11) for name in axes) + 10
    title = f"{plan.model} on {plan.cluster}: {plan.devices} devices, batch {plan.batch}"
    told = "What each mesh axis slices, layer by layer" if not plan.pipeline else "A pipeline slices no layer"
    y = heading(drawing, _PAD, top + 24, title, told, width - 2 * _PAD)
    used = {dim for slicing in plan.slicings.values() for dim in slicing}
    colours = [(dim_colour(dim), f"{dim}: {DIM_WORDS[dim]}") for dim in Dim if dim in used]
    if None in used:
        colours.append((GREY, "not sliced: work repeated"))
    y += legend(drawing, _PAD, y, width - 2 * _PAD, colours) + 4
    spans = _spans(plan, left, width - _PAD)
    for row, axis in enumerate(axes):
        drawing.text(left - 8, y + 18, axis, anchor="end", class_="m")
        for dim, group in groupby(spans, key=lambda span: _dim(plan, span, row)):
            _bar(drawing, plan, axis, dim, list(group), y)
        y += _ROW
    return y + _names(drawing, spans, y) + 12 - top


def _dim(plan: "Plan", span: _Span, row: int) -> Dim | None:
    slicing = plan.slicings[span[2][0]]
    return slicing[row] if slicing else None


def _spans(plan: "Plan", left: float, right: float) -> list[_Span]:
    """Each run's place: wider for more layers, but 1,000 are not a thousand times as interesting as one."""
    found = runs(plan)
    shares = [1 + log2(len(names)) for names in found]
    needed = [min(text_width(names[0], 10), 110.0) + 12 for names in found]
    if sum(needed) > right - left:  # names cannot all be told: the modules are
        needed = [0.0] * len(found)
    spare = (right - left - sum(needed)) / (sum(shares) or 1)
    spans, start = [], left
    for names, own, share in zip(found, needed, shares, strict=True):
        spans.append((start, start + own + spare * share, names))
        start += own + spare * share
    return spans


def _bar(drawing: Drawing, plan: "Plan", axis: str, dim: Dim | None, spans: list[_Span], y: float) -> None:
    start, stop = spans[0][0], spans[-1][1]
    names = [name for span in spans for name in span[2]]
    words = f"{dim}: {DIM_WORDS[dim]}" if dim else "nothing: work repeated"
    colour = dim_colour(dim)
    title = f"{axis} slices {words}, {counted(names)}"
    drawing.rect(start, y, max(stop - start - _GAP, 1), _ROW - 3, fill=colour, rx=2, title=title)
    if dim and stop - start > text_width(dim, 12) + 4:
        drawing.text((start + stop) / 2, y + 17, dim.value, size=12, class_="b", fill=ink(colour), anchor="middle")


def _names(drawing: Drawing, spans: list[_Span], top: float) -> float:
    """Where a bar is wide enough, its first layer and how many follow; else the module that it is in."""
    readable = all(stop - start >= 46 for start, stop, _ in spans)
    places = spans if readable else _module_places(spans)
    for start, stop, names in places:
        middle, room = (start + stop) / 2, stop - start - 4
        told = names[0] if readable else modules(names)[0][0]
        more = f"{len(names)} layers" if len(names) > 1 else ""
        drawing.line(start, top + 2, stop - _GAP, top + 2, "a")
        title = counted(names)
        drawing.text(middle, top + 16, told, size=10, anchor="middle", within=room, title=title)
        if more:
            drawing.text(middle, top + 29, more, size=10, class_="m", anchor="middle", within=room, title=title)
    return 34


def _module_places(spans: list[_Span]) -> list[_Span]:
    """The same stretch of the picture, by module: a run's layers share its width evenly."""
    placed = [
        (start + (stop - start) * position / len(names), start + (stop - start) * (position + 1) / len(names), name)
        for start, stop, names in spans
        for position, name in enumerate(names)
    ]
    places, at = [], 0
    for _, names in modules(name for _, _, name in placed):
        places.append((placed[at][0], placed[at + len(names) - 1][1], names))
        at += len(names)
    return places
