"""What each decision of a plan is worth: the seconds that a step would take longer without it."""

from collections.abc import Sequence

from slicewise.figures.chart import WIDTH, across, heading
from slicewise.figures.colours import BLUE, ORANGE
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import seconds

Worth = tuple[str, str, float, str]  # layers, slicing, seconds, the sentence that explains it
MOST = 20
_ROW, _PAD = 24, 16


def worth_figure(rows: Sequence[Worth], title: str = "What each choice is worth") -> str:
    """A bar per decision, the most important `MOST` in the network's order; a negative one goes to the left."""
    drawing = Drawing()
    kept = sorted(rows, key=lambda row: -abs(row[2]))[:MOST]
    shown = [row for row in rows if row in kept]
    note = "The time that a step would take longer without it, all other layers as they are."
    y = heading(drawing, _PAD, 24, title, note, WIDTH - 2 * _PAD) + 6
    left = _PAD + min(max((text_width(_name(row), 11) for row in shown), default=0.0), 330.0) + 10
    low, high = min((row[2] for row in shown), default=0.0), max((row[2] for row in shown), default=1.0)
    scale = Scale(low=min(low, 0.0), high=max(high, 0.0) or 1.0, start=left, stop=WIDTH - _PAD - 70)
    bottom = y + _ROW * len(shown)
    across(drawing, scale, y - 4, bottom, seconds, "time per step")
    for row in shown:
        start, stop = sorted((scale(0.0), scale(row[2])))
        drawing.text(left - 8, y + 15, _name(row), anchor="end", within=left - _PAD - 8, title=row[3])
        drawing.rect(start, y + 4, max(stop - start, 0.5), 14, fill=BLUE if row[2] >= 0 else ORANGE, title=row[3])
        drawing.text(stop + 6, y + 15, seconds(row[2]), size=10, class_="m")
        y += _ROW
    told = "; ".join(f"{_name(row)}: {seconds(row[2])}" for row in shown)
    return drawing.svg(WIDTH, bottom + 42, f"{title}: {told}")


def _name(row: Worth) -> str:
    return f"{row[0]}: {row[1]}"
