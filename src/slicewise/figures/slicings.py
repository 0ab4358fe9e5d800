"""What each mesh axis slices, from the first layer to the last."""

from itertools import groupby
from math import log2
from typing import TYPE_CHECKING

from slicewise.figures.chart import WIDTH, heading, legend
from slicewise.figures.colours import GREY, dim_colour, dim_word, ink
from slicewise.figures.folding import folded
from slicewise.figures.runs import counted, modules, runs
from slicewise.figures.stages import draw_stages
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
    height += draw_steps(drawing, step_rows(plan), height, WIDTH, cut=plan.references)
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
    if plan.pipeline is not None:
        return draw_stages(drawing, plan, plan.pipeline, top, width)
    axes = [f"{name} (x{size})" for name, size in plan.axes.items()] or ["one device"]
    left = _PAD + max(text_width(name, 11) for name in axes) + 10
    title = f"{plan.model} on {plan.cluster}: {plan.devices} devices, batch {plan.batch}"
    spans, folds = _spans(plan, left, width - _PAD)
    told = "What each mesh axis slices, layer by layer"
    told += "; blocks that repeat are drawn once" if folds else ""
    y = heading(drawing, _PAD, top + 24, title, told, width - 2 * _PAD)
    used = {dim for slicing in plan.slicings.values() for dim in slicing}
    colours = [(dim_colour(dim), f"{dim}: {dim_word(dim)}") for dim in Dim if dim in used]
    if None in used:
        colours.append((GREY, "not sliced: work repeated"))
    y += legend(drawing, _PAD, y, width - 2 * _PAD, colours) + 4
    for row, axis in enumerate(axes):
        drawing.text(left - 8, y + 18, axis, anchor="end", class_="m")
        for dim, group in groupby(spans, key=lambda span: _dim(plan, span, row)):
            _bar(drawing, plan, axis, dim, list(group), y)
        y += _ROW
    return y + _names(drawing, spans, folds, y) + 12 - top


def _dim(plan: "Plan", span: _Span, row: int) -> Dim | None:
    slicing = plan.slicings[span[2][0]]
    return slicing[row] if slicing else None


def _spans(plan: "Plan", left: float, right: float) -> tuple[list[_Span], list[tuple[int, list[str]]]]:
    """Each run's place, wider for more layers, but 1,000 are not a thousand times as interesting as one.

    Where names cannot all be told, blocks that repeat are drawn once: how often, and the layers that are drawn.
    """
    found = runs(plan)
    folds: list[tuple[int, list[str]]] = []
    needed = _needed(found)
    if sum(needed) > right - left and plan.graph is not None:
        shape = folded(plan.graph, plan.slicings)
        found = runs(plan, {layer.name for node in shape.nodes for layer in node.layers})
        folds = [
            (fold.times, [layer.name for node in fold.nodes for layer in shape.nodes[node].layers])
            for fold in shape.folds
        ]
        needed = _needed(found)
    if sum(needed) > right - left:  # the modules have names, then
        needed = [0.0] * len(found)
    shares = [1 + log2(len(names)) for names in found]
    spare = (right - left - sum(needed)) / (sum(shares) or 1)
    spans, start = [], left
    for names, own, share in zip(found, needed, shares, strict=True):
        spans.append((start, start + own + spare * share, names))
        start += own + spare * share
    return spans, folds


def _needed(found: list[list[str]]) -> list[float]:
    return [min(text_width(names[0], 10), 110.0) + 12 for names in found]


def _bar(drawing: Drawing, plan: "Plan", axis: str, dim: Dim | None, spans: list[_Span], y: float) -> None:
    start, stop = spans[0][0], spans[-1][1]
    names = [name for span in spans for name in span[2]]
    words = f"{dim}: {dim_word(dim)}" if dim else "nothing: work repeated"
    colour = dim_colour(dim)
    title = f"{axis} slices {words}, {counted(names)}"
    drawing.rect(start, y, max(stop - start - _GAP, 1), _ROW - 3, fill=colour, rx=2, title=title)
    if dim and stop - start > text_width(dim, 12) + 4:
        drawing.text((start + stop) / 2, y + 17, dim.value, size=12, class_="b", fill=ink(colour), anchor="middle")


def _names(drawing: Drawing, spans: list[_Span], folds: list[tuple[int, list[str]]], top: float) -> float:
    """Where a bar is wide enough, its first layer and how many follow; else the module that it is in."""
    readable = all(stop - start >= 46 for start, stop, _ in spans)
    layers = _layer_places(spans)
    places = spans if readable else _module_places(layers)
    for start, stop, names in places:
        middle, room = (start + stop) / 2, stop - start - 4
        told = names[0] if readable else modules(names)[0][0]
        more = f"{len(names)} layers" if len(names) > 1 and not folds else ""
        drawing.line(start, top + 2, stop - _GAP, top + 2, "a")
        title = counted(names)
        drawing.text(middle, top + 16, told, size=10, anchor="middle", within=room, title=title)
        if text_width(more, 10) < room:
            drawing.text(middle, top + 29, more, size=10, class_="m", anchor="middle", title=title)
    for times, names in folds:
        known = [layers[name] for name in names if name in layers]
        start, stop = min(place[0] for place in known), max(place[1] for place in known)
        told = f"×{times}"
        drawing.line(start + 1, top + 22, stop - 2, top + 22, "k", title=f"{counted(names)}, {times} times")
        if text_width(told, 11) < stop - start:
            drawing.text((start + stop) / 2, top + 35, told, class_="t b", anchor="middle")
    return 40 if folds else 34


def _layer_places(spans: list[_Span]) -> dict[str, tuple[float, float]]:
    """From where to where each layer goes: a run's layers share its width evenly."""
    return {
        name: (start + (stop - start) * position / len(names), start + (stop - start) * (position + 1) / len(names))
        for start, stop, names in spans
        for position, name in enumerate(names)
    }


def _module_places(layers: dict[str, tuple[float, float]]) -> list[_Span]:
    return [(layers[names[0]][0], layers[names[-1]][1], names) for _, names in modules(layers)]
