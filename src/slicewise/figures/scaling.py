"""Strategies over device counts: who is fastest where, how sure that is, and what is not possible and why."""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from slicewise.figures.chart import WIDTH, heading, legend, mark, upright
from slicewise.figures.colours import GROUPS, RED, strategy_colour, strategy_mark
from slicewise.figures.scales import Scale, wide
from slicewise.figures.svg import Drawing, text_width
from slicewise.terms import MOVING_GROUPS, Group
from slicewise.units import amount, seconds

Row = Mapping[str, Any]  # of `ProjectionTable.to_dict()["rows"]`
Measured = tuple[str, int, float]  # strategy, devices, seconds of a step
_PAD, _PLOT = 16.0, 300.0


def scaling_figure(rows: Sequence[Row], measured: Iterable[Measured] = (), title: str = "") -> str:
    """A line per strategy over device counts, both axes logarithmic; bands are ranges, crosses what cannot be."""
    drawing = Drawing()
    points = [point for point in measured if point[2] > 0]
    known = [row for row in rows if _seconds(row) is not None]
    names = list(dict.fromkeys(str(row["strategy"]) for row in rows))
    drawn = [name for name in names if any(row["strategy"] == name for row in known)]
    counts = sorted({int(row["devices"]) for row in rows})
    heading(
        drawing, _PAD, 24, title or "Time per step, by strategy and number of devices",
        "Hollow: does not fit in memory. Cross: not possible. Band: range of the prediction. Large diamond: measured.",
        WIDTH - 2 * _PAD,
    )  # fmt: skip
    values = [
        value for row in known for value in (row["low_s"] or row["iteration_s"], row["high_s"] or row["iteration_s"])
    ]
    values += [point[2] for point in points]
    if not values:
        drawing.text(_PAD, 70, "Nothing is possible.", class_="m")
        return drawing.svg(WIDTH, 90, "Nothing is possible")
    labels = 12 + max(text_width(name, 11) for name in drawn)
    x = Scale(low=counts[0] / 1.15, high=counts[-1] * 1.15, start=74.0, stop=WIDTH - _PAD - labels, log=True)
    low, high = wide(min(values), max(values))
    y = Scale(low=low, high=high, start=86.0 + _PLOT, stop=86.0, log=True)
    upright(drawing, y, x.start, x.stop, seconds, "time per step (logarithmic)")
    for count in counts:
        drawing.text(x(count), y.start + 15, f"{count:,}", size=10, class_="m", anchor="middle")
        drawing.line(x(count), y.start, x(count), y.start + 4, "a")
    drawing.line(x.start, y.start, x.stop, y.start, "a")
    drawing.text((x.start + x.stop) / 2, y.start + 31, "devices (logarithmic)", class_="m", anchor="middle")
    for name in drawn:
        _draw_band(drawing, x, y, [row for row in known if row["strategy"] == name], name)
    for name in drawn:
        _draw_line(drawing, x, y, [row for row in known if row["strategy"] == name], name)
    for name, devices, value in points:
        told = f"measured, {name} on {devices}: {value:.6g} s"
        mark(drawing, "diamond", x(devices), y(value), None, told, 5)
    _draw_names(drawing, x, y, known, drawn)
    bottom = y.start + 58
    bottom += _draw_impossible(drawing, rows, bottom)
    told = "; ".join(
        f"{row['strategy']} on {row['devices']}: {seconds(row['iteration_s'])}" for row in known if row.get("best")
    )
    return drawing.svg(WIDTH, bottom, f"Time per step by strategy and device count. Best: {told}")


def _seconds(row: Row) -> float | None:
    value = row.get("iteration_s")
    return float(value) if value is not None and isfinite(value) and value > 0 else None


def _draw_band(drawing: Drawing, x: Scale, y: Scale, rows: Sequence[Row], name: str) -> None:
    if len(rows) < 2 or any(row.get("low_s") is None for row in rows):
        return
    lower = [(x(row["devices"]), y(row["low_s"])) for row in rows]
    upper = [(x(row["devices"]), y(row["high_s"])) for row in rows]
    drawing.path([*lower, *reversed(upper)], closed=True, fill=strategy_colour(name), fill_opacity=0.07)


def _draw_line(drawing: Drawing, x: Scale, y: Scale, rows: Sequence[Row], name: str) -> None:
    colour = strategy_colour(name)
    if len(rows) > 1:
        places = [(x(row["devices"]), y(row["iteration_s"])) for row in rows]
        drawing.path(places, fill="none", stroke=colour, stroke_width=2)
    for row in rows:
        told = (
            f"{name} on {row['devices']} devices: {row['iteration_s']:.6g} s per step "
            f"({seconds(row['low_s'] or row['iteration_s'])} to {seconds(row['high_s'] or row['iteration_s'])}), "
            f"{amount(row['memory_bytes'] or 0, 'B')} per device{_and(row)}"
        )
        if row.get("feasible", True):
            mark(drawing, strategy_mark(name), x(row["devices"]), y(row["iteration_s"]), colour, told)
        else:
            drawing.add("circle", cx=x(row["devices"]), cy=y(row["iteration_s"]), r=4.5, class_="bg", stroke=colour,
                        stroke_width=2, title=told)  # fmt: skip


def _and(row: Row) -> str:
    return f"; {row['reason']}" if row.get("reason") else "; the best here" if row.get("best") else ""


def _draw_names(drawing: Drawing, x: Scale, y: Scale, rows: Sequence[Row], names: Sequence[str]) -> None:
    """At the end of each line, moved apart where they would touch."""
    last = {
        name: max((row for row in rows if row["strategy"] == name), key=lambda row: int(row["devices"]))
        for name in names
    }
    wanted = sorted((y(row["iteration_s"]), name) for name, row in last.items())
    places: list[float] = []
    for place, _ in wanted:
        places.append(max(place, places[-1] + 14) if places else place)
    over = max(0.0, places[-1] - y.start) if places else 0.0
    for number in range(len(places) - 1, -1, -1):  # those that were pushed below the plot push the others up
        limit = places[number + 1] - 14 if number + 1 < len(places) else y.start
        places[number] = min(places[number], limit) if over else places[number]
    for place, (at, name) in zip(places, wanted, strict=True):
        end = x(last[name]["devices"])
        drawing.path([(end + 7, at), (x.stop + 4, place)], fill="none", class_="g", stroke_dasharray="2 2")
        mark(drawing, strategy_mark(name), x.stop + 8, place, strategy_colour(name), size=3.5)
        drawing.text(x.stop + 16, place + 4, name)


def _draw_impossible(drawing: Drawing, rows: Sequence[Row], top: float) -> float:
    """A line per strategy and reason; returns the height."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row.get("reason"):
            reasons.setdefault((str(row["strategy"]), _kind(str(row["reason"]))), []).append(int(row["devices"]))
    y = top
    for (name, reason), counts in reasons.items():
        mark(drawing, "cross", _PAD + 6, y - 3, RED, size=3.5)
        told = f"{name} on {', '.join(f'{count:,}' for count in counts)}: {reason}"
        drawing.text(_PAD + 16, y, told, class_="m", within=WIDTH - 2 * _PAD - 16)
        y += 16
    return y - top


def _kind(reason: str) -> str:
    """Memory is told once for all counts, with the limit; other reasons as they are."""
    if reason.startswith("memory:"):
        return "does not fit: " + reason.split(", ")[-1]
    return re.sub(r" for \d+ (devices|groups)$", "", reason)


def terms_figure(rows: Sequence[Row], measured: Iterable[Measured] = ()) -> str:
    """A panel per strategy: each device count's step as a bar of its terms, from zero; measured steps as lines."""
    drawing = Drawing()
    points = {(name, devices): value for name, devices, value in measured}
    panels: dict[str, list[Row]] = {}
    for row in rows:
        if _seconds(row) is not None:
            panels.setdefault(str(row["strategy"]), []).append(row)
    note = "Each panel has its own scale. Faded: does not fit in memory. Line across: measured, with the accuracy."
    heading(drawing, _PAD, 24, "Where each strategy's step goes", note, WIDTH - 2 * _PAD)
    used = [Group.COMPUTE, *(group for group in MOVING_GROUPS if any(_part(row, group) for row in rows))]
    top = 54 + legend(drawing, _PAD, 54, WIDTH - 2 * _PAD, [(GROUPS[group], group.told) for group in used]) + 8
    columns = 3
    wide_, high_ = (WIDTH - 2 * _PAD - 20 * (columns - 1)) / columns, 170.0
    for number, (name, own) in enumerate(panels.items()):
        left = _PAD + (number % columns) * (wide_ + 20)
        _draw_panel(drawing, name, own, points, left, top + number // columns * (high_ + 46), wide_, high_)
    height = top + -(-len(panels) // columns) * (high_ + 46)
    told = "; ".join(
        f"{row['strategy']} {row['devices']}: {seconds(row['iteration_s'])}" for own in panels.values() for row in own
    )
    return drawing.svg(WIDTH, height, f"Time per step by term, a panel for each strategy: {told}")


def _part(row: Row, group: Group) -> float:
    if group is Group.COMPUTE:
        return float(row.get("compute_s") or 0.0)
    return float((row.get("communication") or {}).get(f"{group}_s") or 0.0)


def _draw_panel(
    drawing: Drawing, name: str, rows: Sequence[Row], measured: Mapping[tuple[str, int], float], left: float,
    top: float, width: float, height: float,
) -> None:  # fmt: skip
    most = max(
        [*(float(row["iteration_s"]) for row in rows), *(measured.get((name, row["devices"]), 0.0) for row in rows)]
    )
    scale = Scale(low=0.0, high=most * 1.12, start=top + height, stop=top + 22)
    drawing.text(left, top + 8, name, size=12, class_="t b")
    upright(drawing, scale, left + 48, left + width, seconds)
    slot = (width - 48) / len(rows)
    for number, row in enumerate(rows):
        x, y = left + 48 + slot * (number + 0.15), top + height
        pale = 1.0 if row.get("feasible", True) else 0.4
        for group in GROUPS:
            value = _part(row, group)
            if value > 0:
                tall = scale.start - scale(value)
                told = f"{name} on {row['devices']}, {group.told}: {value:.6g} s{_and(row)}"
                drawing.rect(x, y - tall, slot * 0.7, tall, fill=GROUPS[group], fill_opacity=pale, title=told)
                y -= tall
        if (name, row["devices"]) in measured:
            value = measured[name, row["devices"]]
            accuracy = 1 - abs(row["iteration_s"] - value) / value
            told = f"accuracy: 1 - |projected - measured| / measured = {accuracy:.1%}"
            above = min(y, scale(value)) - 6
            drawing.text(x + slot * 0.35, above, f"{accuracy:.0%}", size=10, anchor="middle", within=slot, title=told)
            drawing.line(x - 3, scale(value), x + slot * 0.7 + 3, scale(value), "k", stroke_width=2.5,
                         title=f"measured, {name} on {row['devices']}: {value:.6g} s")  # fmt: skip
        drawing.text(x + slot * 0.35, top + height + 14, f"{row['devices']:,}", size=10, class_="m", anchor="middle",
                     within=slot)  # fmt: skip
    drawing.text(left + 48 + (width - 48) / 2, top + height + 28, "devices", size=10, class_="m", anchor="middle")
