"""Predicted against measured: term by term of one run, or step by step of many."""

from collections.abc import Mapping, Sequence

from slicewise.figures.chart import WIDTH, across, heading, legend, mark, upright
from slicewise.figures.colours import BLUE, ORANGE
from slicewise.figures.scales import Scale, wide
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import seconds

_ROW, _PAD = 36, 16


def agreement_figure(predicted: Mapping[str, float], measured: Mapping[str, float], title: str = "") -> str:
    """Two bars per term, `{"compute": seconds, ..., "step": seconds}`; beside them measured / predicted."""
    drawing = Drawing()
    names = [
        name
        for name in dict.fromkeys((*predicted, *measured))
        if max(predicted.get(name, 0), measured.get(name, 0)) > 0
    ]
    heading(drawing, _PAD, 24, title or "Predicted against measured, per step", within=WIDTH - 2 * _PAD)
    y = 36 + legend(drawing, _PAD, 36, WIDTH, [(BLUE, "predicted"), (ORANGE, "measured")]) + 6
    left = _PAD + max((text_width(name, 12) for name in names), default=0.0) + 10
    most = max((max(predicted.get(name, 0.0), measured.get(name, 0.0)) for name in names), default=1.0)
    scale = Scale(low=0.0, high=most, start=left, stop=WIDTH - _PAD - 170)
    bottom = y + _ROW * len(names)
    across(drawing, scale, y - 4, bottom, seconds, "time per step")
    for name in names:
        one, other = predicted.get(name), measured.get(name)
        drawing.text(left - 8, y + 20, name, size=12, class_="t b" if name == "step" else "t", anchor="end")
        for value, colour, told, top in ((one, BLUE, "predicted", y + 3), (other, ORANGE, "measured", y + 17)):
            if value is not None:
                width = scale(value) - left
                drawing.rect(left, top, width, 12, fill=colour, rx=1, title=f"{name}, {told}: {value:.6g} s")
                drawing.text(left + width + 6, top + 10, seconds(value), size=10, class_="m")
        if one and other:
            drawing.text(WIDTH - _PAD, y + 20, f"{other / one:.2f} x", size=12, anchor="end",
                         title="measured / predicted")  # fmt: skip
        y += _ROW
    told = "; ".join(
        f"{name}: predicted {seconds(predicted.get(name, 0))}, measured {seconds(measured.get(name, 0))}"
        for name in names
    )
    return drawing.svg(WIDTH, bottom + 42, f"Predicted against measured. {told}")


def scatter_figure(points: Sequence[tuple[str, float, float]]) -> str:
    """Many runs: (name, predicted, measured). On the diagonal a prediction is right."""
    drawing = Drawing()
    heading(drawing, _PAD, 24, "Predicted against measured steps", "On the diagonal a prediction is right.", WIDTH)
    values = [value for point in points for value in point[1:]]
    low, high = wide(min(values), max(values))
    size = 420.0
    x = Scale(low=low, high=high, start=84.0, stop=84.0 + size, log=True)
    y = Scale(low=low, high=high, start=80.0 + size, stop=80.0, log=True)
    upright(drawing, y, x.start, x.stop, seconds, "measured")
    across(drawing, x, y.stop, y.start, seconds, "predicted")
    drawing.line(x.start, y.start, x.stop, y.stop, "a", stroke_dasharray="5 3")
    for name, predicted, measured in points:
        told = f"{name}: predicted {predicted:.6g} s, measured {measured:.6g} s"
        mark(drawing, "circle", x(predicted), y(measured), BLUE, told)
    told = "; ".join(f"{name} {seconds(one)} / {seconds(other)}" for name, one, other in points)
    return drawing.svg(84 + size + 24, 80 + size + 44, f"Predicted / measured steps: {told}")
