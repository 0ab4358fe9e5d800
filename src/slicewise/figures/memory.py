"""Memory per device against its limit, by what holds it."""

from collections.abc import Mapping

from slicewise.figures.chart import WIDTH, across, heading, legend, stacked
from slicewise.figures.colours import GREY, HOLDERS
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import amount

_ROW, _PAD = 28, 16


def memory_figure(rows: Mapping[str, Mapping[str, float]], limit_bytes: float | None = None) -> str:
    """A bar per strategy: `{"layer-wise": {"weights": 1e8, ...}, "data": {"total": 6e8}}`."""
    drawing = Drawing()
    totals = {name: sum(held.values()) for name, held in rows.items()}
    told = {name: _told(total, limit_bytes) for name, total in totals.items()}
    words = max((text_width(line, 11) for line in told.values()), default=0.0)
    note = f"The limit of a device is {amount(limit_bytes, 'B')}." if limit_bytes else ""
    y = heading(drawing, _PAD, 24, "Memory of the device that holds most", note, WIDTH - 2 * _PAD)
    used = [holder for holder in HOLDERS if any(held.get(holder) for held in rows.values())]
    y += legend(drawing, _PAD, y, WIDTH - 2 * _PAD, [(HOLDERS[name], name) for name in used]) + 8
    left = _PAD + max((text_width(name, 12) for name in rows), default=0.0) + 10
    most = max(totals.values(), default=1.0) or 1.0
    within = limit_bytes if limit_bytes and limit_bytes < 4 * most else None  # a far limit would leave no room for bars
    scale = Scale(low=0.0, high=max(most, within or 0.0), start=left, stop=WIDTH - _PAD - 8 - words)
    top, bottom = y - 4, y + _ROW * len(rows)
    across(drawing, scale, top, bottom, lambda value: amount(value, "B"), "bytes of one device")
    for name, held in rows.items():
        drawing.text(left - 8, y + 16, name, size=12, anchor="end")
        parts = [
            (HOLDERS.get(holder, GREY), value, f"{name}, {holder}: {value:,.0f} B") for holder, value in held.items()
        ]
        stacked(drawing, scale, y + 4, _ROW - 11, parts)
        drawing.text(scale(totals[name]) + 6, y + 16, told[name], title=f"{totals[name]:,.0f} B")
        y += _ROW
    if within:
        drawing.line(scale(within), top, scale(within), bottom, "k", stroke_width=2, stroke_dasharray="5 3",
                     title=f"limit: {within:,.0f} B")  # fmt: skip
    label = "; ".join(f"{name} {amount(total, 'B')}" for name, total in totals.items())
    return drawing.svg(WIDTH, bottom + 42, f"Memory per device: {label}")


def _told(total: float, limit_bytes: float | None) -> str:
    share = f" ({total / limit_bytes:.0%} of the limit)" if limit_bytes else ""
    return f"{amount(total, 'B')}{share}"
