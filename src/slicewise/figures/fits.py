"""How well lines go through what was timed: a row per kind of layer and direction, a dot per layer."""

from collections.abc import Mapping, Sequence

from slicewise.figures.chart import WIDTH, across, heading, mark
from slicewise.figures.colours import BLUE, ORANGE
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import seconds

_ROW, _PAD = 20, 16
_WIDEST = 5.0  # a dot farther off stands at the edge, in another colour


def fit_figure(rows: Mapping[str, Sequence[tuple[float, float]]], title: str = "") -> str:
    """`{"pointwise forward": [(on the line, measured), ...]}`, in seconds."""
    drawing = Drawing()
    note = "measured over fitted: on 1 the line goes through the point; its words say both"
    y = heading(drawing, _PAD, 24, title or "Layers as measured, over the fitted lines", note, WIDTH - 2 * _PAD) + 12
    left = _PAD + max((text_width(name, 12) for name in rows), default=0.0) + 24
    scale = Scale(low=1 / _WIDEST, high=_WIDEST, start=left, stop=WIDTH - 2 * _PAD, log=True)
    bottom = y + _ROW * len(rows)
    across(drawing, scale, y, bottom, lambda value: f"{value:g}", "measured / fitted")
    drawing.line(scale(1.0), y, scale(1.0), bottom, "a")
    for number, (name, points) in enumerate(rows.items()):
        middle = y + _ROW * number + _ROW / 2
        drawing.text(left - 10, middle + 4, name, size=12, anchor="end")
        for fitted_s, measured_s in points:
            ratio = measured_s / fitted_s if fitted_s else _WIDEST
            inside = 1 / _WIDEST <= ratio <= _WIDEST
            told = f"{name}: measured {seconds(measured_s)}, fitted {seconds(fitted_s)}"
            place = scale(min(max(ratio, 1 / _WIDEST), _WIDEST))
            mark(drawing, "circle", place, middle, BLUE if inside else ORANGE, told, size=3.5)
    return drawing.svg(WIDTH, bottom + 42, f"Measured over fitted seconds of {', '.join(rows)}")
