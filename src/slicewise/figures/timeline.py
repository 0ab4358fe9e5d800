"""A step over time, a lane per device and kind of work: predicted above measured."""

from collections.abc import Sequence

from slicewise.figures.chart import WIDTH, across, heading, legend
from slicewise.figures.colours import BLUE, GREY, TERMS, VIOLET, WAITING
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, number, text_width
from slicewise.timelines.event import LANES, Event
from slicewise.units import seconds

_LANE, _PAD = 20, 16
MOST_EVENTS = 8000  # of a step that is drawn
_COLOURS = {"forward": BLUE, "backward": VIOLET, **{term: TERMS[term] for term in TERMS if term != "compute"}}
_Row = tuple[str, int, str]  # "predicted", rank, lane


def timeline_figure(predicted: Sequence[Event], measured: Sequence[Event] = ()) -> str:
    """One step of each; both begin at 0 and have the same scale. A page's script may zoom into `.zoom`."""
    drawing = Drawing()
    dropped = max(len(predicted), len(measured)) - MOST_EVENTS
    predicted, measured = _longest(predicted), _longest(measured)
    rows = [*_rows("predicted", predicted), *_rows("measured", measured)]
    alone = len({event.rank for event in predicted}) == 1
    note = "Predicted: the device with the largest parts, which the others wait for." if alone else ""
    note += f" The {MOST_EVENTS:,} longest events are drawn." if dropped > 0 else ""
    top = heading(drawing, _PAD, 24, "One step over time", note, WIDTH - 2 * _PAD)
    used = {_colour(event) for event in (*predicted, *measured) if event.lane != "step"}
    items = [(colour, term) for term, colour in _COLOURS.items() if colour in used]
    top += legend(drawing, _PAD, top, WIDTH - 2 * _PAD, items) + 8
    left = _PAD + max((text_width(_name(row), 11) for row in rows), default=0.0) + 10
    zero = {"predicted": _start(predicted), "measured": _start(measured)}
    length = max(
        (event.stop_s - zero[told] for told, events in _both(predicted, measured) for event in events), default=0
    )
    scale = Scale(low=0.0, high=length or 1.0, start=left, stop=WIDTH - _PAD)
    tops, y = {}, top
    for number_, row in enumerate(rows):
        y += 8 if number_ and row[:2] != rows[number_ - 1][:2] else 0
        tops[row] = y
        drawing.text(left - 8, y + 14, _name(row), anchor="end", class_="m")
        y += _LANE
    drawing.open(class_="ticks")
    across(drawing, scale, top - 4, y + 2, seconds, "time since the step began")
    drawing.close()
    wide, high = scale.stop - scale.start, y - top
    micro = 1e6
    drawing.open(
        "svg", x=left, y=top, width=wide, height=high, class_="zoom", preserveAspectRatio="none",
        viewBox=f"0 0 {number(scale.high * micro)} {number(high)}", data_length=f"{scale.high:.9g}",
    )  # fmt: skip
    for told, events in _both(predicted, measured):
        for event in events:
            start, stop = (event.start_s - zero[told]) * micro, (event.stop_s - zero[told]) * micro
            row = (told, event.rank, event.lane)
            title = f"{event.name}: {seconds(event.stop_s - event.start_s)}, {told}, device {event.rank}, {event.lane}"
            drawing.rect(start, tops[row] - top + 2, stop - start, _LANE - 4, fill=_colour(event), title=title,
                         fill_opacity=None if event.lane != "step" else 0.35)  # fmt: skip
    drawing.close("svg")
    told = "; ".join(
        f"{name} {seconds(max(event.stop_s for event in events) - zero[name])}"
        for name, events in _both(predicted, measured)
        if events
    )
    return drawing.svg(WIDTH, y + 42, f"Timeline of one step: {told}")


def _longest(events: Sequence[Event]) -> Sequence[Event]:
    """Those that a page can hold."""
    if len(events) <= MOST_EVENTS:
        return events
    return sorted(events, key=lambda event: event.start_s - event.stop_s)[:MOST_EVENTS]


def _both(predicted: Sequence[Event], measured: Sequence[Event]) -> list[tuple[str, Sequence[Event]]]:
    return [("predicted", predicted), ("measured", measured)]


def _start(events: Sequence[Event]) -> float:
    return min((event.start_s for event in events), default=0.0)


def _rows(told: str, events: Sequence[Event]) -> list[_Row]:
    found = {(event.rank, event.lane) for event in events}
    return [(told, rank, lane) for rank, lane in sorted(found, key=lambda row: (row[0], LANES.index(row[1])))]


def _name(row: _Row) -> str:
    told, rank, lane = row
    return f"{told}, device {rank}: {lane}"


def _colour(event: Event) -> str:
    """By term; of a pipeline's turns, and of the phases of a step, by name."""
    if event.name.startswith("wait"):
        return TERMS[WAITING]
    turn = {"F": "forward", "B": "backward"}.get(event.name[:1], "") if event.name[1:].isdigit() else event.name
    known = (event.details.get("term"), *((event.lane,) if event.lane in _COLOURS else ()), turn)
    return next((_COLOURS[str(term)] for term in known if term in _COLOURS), GREY if event.lane == "step" else BLUE)
