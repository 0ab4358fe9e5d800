"""Sentences about boxes of a picture: beside them, or below the picture under a number that the box has too."""

from collections.abc import Mapping

from slicewise.figures.svg import Drawing, wrapped

NOTE, WIDEST = 400.0, 720.0  # the width of a note; of a picture that has room beside it
_LINE, _SIZE = 15, 11

Corner = tuple[float, float]  # of a box: its right side and its top


def notes_beside(drawing: Drawing, notes: Mapping[str, str], boxes: Mapping[str, Corner], left: float) -> float:
    """Each at the height of its box, or further down where another stands there; returns where they end."""
    end = 0.0
    for name in sorted(notes, key=lambda name: boxes[name][1]):
        edge, beside = boxes[name][0], boxes[name][1] + 12
        top = max(beside, end + 12)
        lines = wrapped(notes[name], NOTE - 12, _SIZE)
        way = [(edge, beside + 11), (left - 8, beside + 11), (left, top + 4)]
        drawing.path(way, fill="none", class_="a", stroke_dasharray="2 3")
        drawing.line(left + 2, top - 8, left + 2, top + _LINE * len(lines) - 8, "a", stroke_width=2)
        _paragraph(drawing, lines, left + 12, top + 3)
        end = top + _LINE * len(lines)
    return end + 8 if end else 0.0


def notes_below(
    drawing: Drawing, notes: Mapping[str, str], boxes: Mapping[str, Corner], left: float, top: float, width: float
) -> float:
    """One after the other, with the number that stands at the corner of the box; returns where they end."""
    for number, name in enumerate(sorted(notes, key=lambda name: boxes[name][1]), 1):
        lines = wrapped(notes[name], min(width, 2 * NOTE) - 28, _SIZE)
        _badge(drawing, number, *boxes[name], name)
        _badge(drawing, number, left + 9, top - 4, name)
        _paragraph(drawing, lines, left + 28, top)
        top += _LINE * len(lines) + 10
    return top


def _paragraph(drawing: Drawing, lines: list[str], left: float, top: float) -> None:
    for number, line in enumerate(lines):
        drawing.text(left, top + _LINE * number, line, size=_SIZE)


def _badge(drawing: Drawing, number: int, x: float, y: float, name: str) -> None:
    drawing.add("circle", cx=x, cy=y, r=9, class_="t h", stroke_width=1.5, title=name)
    drawing.add("text", x=x, y=y + 3.5, class_="bg b", font_size=10, text_anchor="middle", text=str(number))
