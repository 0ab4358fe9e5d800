"""What each layer costs, beside what it costs under another strategy."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slicewise.figures.chart import WIDTH, across, heading, legend, stacked
from slicewise.figures.colours import TERMS
from slicewise.figures.runs import UNSHOWN, counted
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing, text_width
from slicewise.partition.spelling import short_spelled, spelled
from slicewise.terms import LAYER_TERMS
from slicewise.units import seconds

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

Costs = Mapping[str, Mapping[str, Any]]  # layer -> `compute_s`, `sync_s`, ... as plan files have them
MOST_ROWS = 40
_ROW, _PAD = 30, 16


def layer_costs_figure(plan: "Plan", reference: Costs | None = None, strategy: str = "data") -> str:
    """Seconds by term of every group of layers, above those under `strategy` where `reference` has them.

    Groups are modules, down to single layers where those are few; the costliest `MOST_ROWS` are shown.
    """
    groups = _groups(plan, reference)
    own = {name: _terms(plan.costs, names) for name, names in groups.items()}
    other = {name: _terms(reference, names) for name, names in groups.items()} if reference else {}
    worth = {name: max(sum(own[name].values()), sum(other.get(name, {}).values())) for name in groups}
    shown = set(sorted(groups, key=lambda name: -worth[name])[:MOST_ROWS])
    drawing = Drawing()
    title = "What each layer costs per step" + (f", beside {strategy} parallelism" if other else "")
    note = "Work and communication added up, nothing hidden behind anything else." + (
        " Upper bar: this plan. Thin bar and (...): " + strategy + "." if other else ""
    )
    y = heading(drawing, _PAD, 24, title, note, WIDTH - 2 * _PAD)
    used = [term.name for term in LAYER_TERMS if any(c.get(term.name) for c in (*own.values(), *other.values()))]
    y += legend(drawing, _PAD, y, WIDTH - 2 * _PAD, [(TERMS[term], term) for term in used]) + 6
    left = _PAD + min(max((text_width(name, 11) for name in shown), default=0), 190) + 92
    scale = Scale(low=0.0, high=max(worth.values(), default=1.0) or 1.0, start=left, stop=WIDTH - _PAD - 120)
    bottom = y + _ROW * len(shown)
    across(drawing, scale, y - 4, bottom, seconds, "time per step")
    for name, names in groups.items():
        if name not in shown:
            continue
        letters = list(dict.fromkeys(spelled(plan.slicings[layer], plan.axes) for layer in names))
        short = {short_spelled(plan.slicings[layer], plan.mesh.sizes) for layer in names}
        drawing.text(_PAD, y + 13, name, within=left - 82 - _PAD, title=counted(names))
        told = next(iter(short)) if len(short) == 1 else "mixed"
        drawing.text(left - 8, y + 13, told, size=10, class_="m", anchor="end", within=66, title=", ".join(letters))
        stacked(drawing, scale, y + 3, 13, _parts(f"{name} here", own[name]))
        ends = [scale(sum(own[name].values()))]
        if name in other:
            stacked(drawing, scale, y + 18, 6, _parts(f"{name}, {strategy}", other[name]))
            ends.append(scale(sum(other[name].values())))
        drawing.text(max(ends) + 6, y + 14, _total(own[name], other.get(name)), size=10, class_="m")
        y += _ROW
    height = bottom + 42
    if len(shown) < len(groups):
        drawing.text(_PAD, height, f"and {len(groups) - len(shown)} that cost less", class_="m")
        height += 16
    label = f"Seconds per step by layer of {plan.model}: " + "; ".join(
        f"{name} {seconds(sum(own[name].values()))}" for name in groups if name in shown
    )
    return drawing.svg(WIDTH, height, label)


def _groups(plan: "Plan", reference: Costs | None) -> dict[str, list[str]]:
    """Layers, or the modules that hold them, as deep as `MOST_ROWS` rows allow; neighbours that cost alike are one."""
    layers = [name for name, kind in plan.kinds.items() if kind not in UNSHOWN]
    deepest = max((name.count(".") for name in layers), default=0) + 1
    for depth in range(deepest, 0, -1):
        groups: dict[str, list[str]] = {}
        for name in layers:
            groups.setdefault(".".join(name.split("#")[0].split(".")[:depth]), []).append(name)
        if len(groups) > MOST_ROWS:
            groups = _merged(groups, [plan.costs, *([reference] if reference else [])])
        if len(groups) <= MOST_ROWS or depth == 1:
            return groups
    return {}


def _merged(groups: Mapping[str, list[str]], costs: Sequence[Costs]) -> dict[str, list[str]]:
    """`layer3.1 … 35 (×35)`: blocks of one kind, one after the other, with the same costs."""
    found: list[tuple[list[str], list[str]]] = []  # names of groups, layers
    before: object = None
    for name, layers in groups.items():
        priced = [tuple(f"{value:.4g}" for value in _terms(own, layers).values()) for own in costs]
        now = (re.sub(r"\d+$", "", name), priced)
        if now == before:
            found[-1][0].append(name)
            found[-1][1].extend(layers)
        else:
            found.append(([name], list(layers)))
        before = now
    return {
        names[0] if len(names) == 1 else f"{names[0]} … {names[-1].rsplit('.', 1)[-1]} (×{len(names)})": layers
        for names, layers in found
    }


def _terms(costs: Costs, names: list[str]) -> dict[str, float]:
    return {term.name: sum(float(costs[name].get(f"{term.name}_s", 0.0)) for name in names) for term in LAYER_TERMS}


def _total(own: Mapping[str, float], other: Mapping[str, float] | None) -> str:
    """`1.53 ms (29.8 ms)`: here, and there where that is something else."""
    here, there = sum(own.values()), sum(other.values()) if other else 0.0
    return (
        seconds(here)
        if not other or abs(here - there) <= 0.005 * max(here, there)
        else f"{seconds(here)} ({seconds(there)})"
    )


def _parts(name: str, terms: Mapping[str, float]) -> list[tuple[str, float, str]]:
    return [(TERMS[term], value, f"{name}, {term}: {seconds(value)}") for term, value in terms.items()]
