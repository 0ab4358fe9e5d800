"""Where each strategy's step goes: a bar per strategy, by term."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from slicewise.figures.chart import WIDTH, across, heading, legend, stacked
from slicewise.figures.colours import TERMS
from slicewise.figures.scales import Scale
from slicewise.figures.step_terms import MEANING, step_terms
from slicewise.figures.svg import Drawing, text_width
from slicewise.units import ROUNDING, amount, seconds

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

_ROW = 26
_PAD = 16


def step_rows(plan: "Plan") -> dict[str, Mapping[str, Any]]:
    """The plan's own step, then those that stand beside it, possible or not."""
    return {"layer-wise" if plan.certificate else "this plan": plan.predicted, **plan.baselines, **plan.references}


def strategy_bars(plan: "Plan") -> dict[str, dict[str, float]]:
    """Of every strategy that is possible, seconds by term: each adds up to the step that the table shows."""
    return {name: step_terms(row) for name, row in step_rows(plan).items() if row.get("feasible", True)}


def steps_figure(plan: "Plan") -> str:
    """Predicted seconds per step of the plan and of the strategies beside it."""
    drawing = Drawing()
    rows = step_rows(plan)
    height = draw_steps(drawing, rows, 0.0, WIDTH, cut=plan.references)
    told = "; ".join(f"{name} {seconds(row['iteration_s'])}" for name, row in rows.items() if row.get("feasible", True))
    return drawing.svg(WIDTH, height, f"Predicted step of {plan.model} by strategy: {told}")


def draw_steps(
    drawing: Drawing, rows: Mapping[str, Mapping[str, Any]], top: float, width: float, cut: Collection[str] = ()
) -> float:
    """Returns the height. `cut`: rows whose bars may be cut short, so that one of them does not dwarf the others."""
    possible = {name: row for name, row in rows.items() if row.get("feasible", True)}
    bars = {name: step_terms(row) for name, row in possible.items()}
    names = max((text_width(name, 12) for name in rows), default=0.0)
    told = {name: _told(row) for name, row in possible.items()}
    left = _PAD + names + 10
    right = width - _PAD - max((text_width(words, 11) for words in told.values()), default=0.0) - 8
    heading(drawing, _PAD, top + 22, "Predicted time per step, by what it is spent on", within=width - 2 * _PAD)
    used = [term for term in TERMS if any(bar[term] for bar in bars.values())]
    y = top + 34
    y += legend(drawing, _PAD, y, width - 2 * _PAD, [(TERMS[term], _meaning(term)) for term in used]) + 6
    longest = max((sum(bar.values()) for name, bar in bars.items() if name not in cut), default=1.0)
    scale = Scale(low=0.0, high=longest, start=left, stop=max(right, left + 80))
    bottom = y + _ROW * len(rows) + 2
    across(drawing, scale, y - 4, bottom, lambda value: seconds(value), "time per step")
    for name, row in rows.items():
        drawing.text(left - 8, y + 15, name, size=12, class_="t b" if name == next(iter(rows)) else "t", anchor="end")
        if name in bars:
            parts = [(TERMS[term], value, f"{name}, {term}: {seconds(value)}") for term, value in bars[name].items()]
            stacked(drawing, scale, y + 3, _ROW - 9, _within(parts, longest))
            end = scale(min(sum(bars[name].values()), longest))
            if sum(bars[name].values()) > longest * (1 + ROUNDING):
                drawing.path([(end - 9, y + _ROW - 4), (end - 4, y + 1)], class_="h", stroke_width=3, fill="none")
            drawing.text(end + 6, y + 15, told[name], title=_exact(name, row))
        else:
            why = f"not possible: {row.get('reason', '')}"
            drawing.text(left + 6, y + 15, why, class_="m", within=width - left - _PAD - 6)
        y += _ROW
    return bottom + 40 - top


def _within(parts: list[tuple[str, float, str]], longest: float) -> list[tuple[str, float, str]]:
    """The beginning of a bar, up to `longest`."""
    kept, left = [], longest
    for colour, value, title in parts:
        kept.append((colour, min(value, left), title))
        left -= kept[-1][1]
    return kept


def _meaning(term: str) -> str:
    return f"{term}: {MEANING[term]}" if term in MEANING else term


def _told(row: Mapping[str, Any]) -> str:
    sent = f", {amount(row['bytes_moved'], 'B')} sent" if row.get("bytes_moved") else ""
    return f"{seconds(row['iteration_s'])}{sent}"


def _exact(name: str, row: Mapping[str, Any]) -> str:
    span = f" ({seconds(row['low_s'])} to {seconds(row['high_s'])})" if "low_s" in row else ""
    return f"{name}: {row['iteration_s']:.6g} s per step{span}"
