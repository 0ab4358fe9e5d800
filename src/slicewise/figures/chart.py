"""What charts have in common: legends, axes, stacked bars, marks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import cos, pi, sin

from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width, wrapped

LINE = 16  # pixels from one line of small text to the next
WIDTH = 860.0  # of a figure


def heading(drawing: Drawing, x: float, y: float, text: str, note: str = "", within: float = WIDTH) -> float:
    """A title with its base at `y`, and what it means below it; returns where the next thing may begin."""
    drawing.text(x, y, text, size=13, class_="t b", within=within)
    lines = wrapped(note, within, 11)
    for number, line in enumerate(lines):
        drawing.text(x, y + 17 + 15 * number, line, class_="m")
    return y + 14 + 15 * len(lines)


def legend(drawing: Drawing, x: float, y: float, width: float, items: Iterable[tuple[str, str]]) -> float:
    """Colours and their words, in as many lines as they need; returns the height."""
    left, top = x, y
    for colour, words in items:
        needed = 16 + text_width(words, 11) + 14
        if left > x and left + needed > x + width + 14:
            left, top = x, top + LINE + 2
        drawing.rect(left, top, 11, 11, fill=colour, rx=2)
        drawing.text(left + 16, top + 10, words, class_="m")
        left += needed
    return top - y + LINE + 2


def across(
    drawing: Drawing, scale: Scale, top: float, bottom: float, told: Callable[[float], str], title: str = ""
) -> None:
    """A horizontal axis below `bottom`, with lines up to `top`. Names that would touch are left out."""
    end = -1e9
    for tick in scale.ticks:
        x, words = scale(tick), told(tick)
        drawing.line(x, top, x, bottom)
        half = text_width(words, 10) / 2
        if x - half > end + 4:
            drawing.text(x, bottom + 14, words, size=10, class_="m", anchor="middle")
            end = x + half
    drawing.line(scale.start, bottom, scale.stop, bottom, "a")
    if title:
        drawing.text((scale.start + scale.stop) / 2, bottom + 30, title, class_="m", anchor="middle")


def upright(
    drawing: Drawing, scale: Scale, left: float, right: float, told: Callable[[float], str], title: str = ""
) -> None:
    """A vertical axis left of `left`, with lines to `right`; its title stands above it."""
    end = 1e9
    for tick in scale.ticks:
        y = scale(tick)
        drawing.line(left, y, right, y)
        if y + 5 < end:
            drawing.text(left - 6, y + 3.5, told(tick), size=10, class_="m", anchor="end")
            end = y - 6
    if title:
        drawing.text(left, min(scale.start, scale.stop) - 10, title, class_="m")


def stacked(
    drawing: Drawing,
    scale: Scale,
    y: float,
    height: float,
    parts: Sequence[tuple[str, float, str]],
) -> None:
    """A bar from left to right of (colour, value, tooltip)."""
    start = 0.0
    for colour, value, title in parts:
        if value > 0:
            left = scale(start)
            drawing.rect(left, y, scale(start + value) - left, height, fill=colour, title=title)
            start += value


def mark(
    drawing: Drawing, kind: str, x: float, y: float, colour: str | None, title: str = "", size: float = 4.5
) -> None:
    """A point of a line, in a shape of its own: lines that cross stay apart without colour. None: as words are."""
    classes = "h" if colour else "t h"
    if kind == "circle":
        drawing.add("circle", cx=x, cy=y, r=size, fill=colour, class_=classes, stroke_width=1, title=title)
        return
    corners: Mapping[str, tuple[int, float]] = {"square": (4, pi / 4), "diamond": (4, 0), "triangle": (3, pi / 2)}
    if kind in corners:
        count, turn = corners[kind]
        points = [(turn + 2 * pi * corner / count, size * 1.25) for corner in range(count)]
    else:  # a cross or a star: every second corner is near
        count = 4 if kind == "cross" else 5
        points = [
            (pi / 2 + pi * corner / count, size * (1.45 if corner % 2 == 0 else 0.6)) for corner in range(2 * count)
        ]
    outline = [(x + away * cos(angle), y - away * sin(angle)) for angle, away in points]
    drawing.path(outline, closed=True, fill=colour, class_=classes, stroke_width=1, title=title)
