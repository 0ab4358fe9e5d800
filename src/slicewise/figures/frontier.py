"""The time-memory frontier: plans from the fastest to the smallest."""

from collections.abc import Sequence

from slicewise.figures.chart import WIDTH, across, heading, mark, upright
from slicewise.figures.colours import BLUE, GREY
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import amount, seconds

Point = tuple[str, float, float]  # name, seconds of a step, bytes of one device
_PAD = 16


def frontier_figure(points: Sequence[Point], limit_bytes: float | None = None) -> str:
    """Step over memory; the line joins plans that no other beats in both."""
    drawing = Drawing()
    best = frontier(points)
    heading(
        drawing, _PAD, 24, "Time against memory", "The line joins the plans that no other beats in both.",
        WIDTH - 2 * _PAD,
    )  # fmt: skip
    most_s, most_bytes = max(point[1] for point in points), max(point[2] for point in points)
    x = Scale(low=0.0, high=most_bytes * 1.08, start=84.0, stop=WIDTH - _PAD - 20)
    y = Scale(low=0.0, high=most_s * 1.12, start=340.0, stop=76.0)
    upright(drawing, y, x.start, x.stop, seconds, "time per step")
    across(drawing, x, y.stop, y.start, lambda value: amount(value, "B"), "bytes of one device")
    drawing.path([(x(point[2]), y(point[1])) for point in best], fill="none", stroke=BLUE, stroke_width=2)
    if limit_bytes and limit_bytes <= x.high:
        drawing.line(x(limit_bytes), y.stop, x(limit_bytes), y.start, "k", stroke_dasharray="5 3",
                     title=f"limit: {limit_bytes:,.0f} B")  # fmt: skip
    taken: list[tuple[float, float, float]] = []
    for name, step_s, held in sorted(points, key=lambda point: point[2]):
        left, top = x(held), y(step_s)
        told = f"{name}: {step_s:.6g} s per step, {held:,.0f} B per device"
        mark(drawing, "circle", left, top, BLUE if (name, step_s, held) in best else GREY, told, 5)
        wide = text_width(name, 10)
        start = left - wide / 2 if left + wide / 2 < x.stop else x.stop - wide
        if all(abs(other - top) > 13 or start > end + 3 or start + wide < begin - 3 for begin, end, other in taken):
            drawing.text(start, top - 9, name, size=10, title=told)
            taken.append((start, start + wide, top))
    label = "; ".join(f"{name} {seconds(step_s)}, {amount(held, 'B')}" for name, step_s, held in points)
    return drawing.svg(WIDTH, 382, f"Time against memory: {label}")


def frontier(points: Sequence[Point]) -> list[Point]:
    """From the smallest to the fastest, those that are faster than all smaller ones."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point[2], point[1])):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found
