"""Pictures of plans, by matplotlib (`pip install slicewise[figures]`)."""

import io
from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.errors import RequestError
from slicewise.plans.plan import Plan
from slicewise.report.step_terms import MEANING, TERMS, step_terms
from slicewise.saving import write_file
from slicewise.units import amount, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHOLE = "whole"

# One colour per dim: the eye should find a change of slicing at once.
DIM_COLOURS = {
    "N": "#4c78a8",
    "F": "#f58518",
    "C": "#e45756",
    "D": "#72b7b2",
    "H": "#54a24b",
    "W": "#b5cf6b",
    WHOLE: "#d9d9d9",
}
TERM_COLOURS = {
    "compute": "#4c78a8",
    "update": "#9ecae9",
    "transfer": "#f58518",
    "halo": "#54a24b",
    "reduce": "#b279a2",
    "sync": "#e45756",
    "waiting": "#bab0ac",
}
_UNSHOWN = ("input", "output", "fork")  # kinds that compute nothing
_NAME = 26  # characters of a layer's name


def draw_plan(plan: Plan, path: Path) -> None:
    """How each layer is sliced, and where each strategy's time goes."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise RequestError("a figure needs matplotlib; `pip install slicewise[figures]`") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "slicewise"  # the same plan gives the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words: small files that can be searched
    from matplotlib import pyplot

    size = (min(30.0, max(11.0, 1.5 + 0.17 * sum(map(_width, runs(plan))))), 6.4)
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=size, height_ratios=[1.2, 1], constrained_layout=True)
    figure.suptitle(f"{plan.model} on {plan.cluster}: {plan.devices} devices, batch {plan.batch}", fontsize=12)
    _draw_slicings(plan, top)
    _draw_strategies(plan, bottom)
    drawn = io.BytesIO()
    kind = path.suffix.removeprefix(".") or "png"
    try:
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    except ValueError as error:
        raise RequestError(f"cannot draw {path}: {error}") from error
    finally:
        pyplot.close(figure)
    write_file(path, drawn.getvalue())


def runs(plan: Plan) -> list[list[str]]:
    """Consecutive layers of one slicing, without those that compute nothing."""
    found: list[list[str]] = []
    for name, kind in plan.kinds.items():
        if kind in _UNSHOWN:
            continue
        if found and plan.slicings[found[-1][0]] == plan.slicings[name]:
            found[-1].append(name)
        else:
            found.append([name])
    return found


def _draw_slicings(plan: Plan, axes: "Axes") -> None:
    """One bar per run of layers, wider for more of them; one row per mesh axis: the dim that the axis slices."""
    shown: dict[str, Any] = {}
    middles, left = [], 0.0
    for names in runs(plan):
        width = _width(names)
        for row, dim in enumerate(plan.slicings[names[0]]):
            letter = dim.value if dim is not None else WHOLE
            bar = axes.bar(left, 0.94, width - 0.06, bottom=row - 0.47, color=DIM_COLOURS[letter], align="edge")
            shown.setdefault(letter, bar)
            if dim is not None:
                axes.text(left + width / 2, row, letter, ha="center", va="center", fontsize=8, color="white")
        middles.append(left + width / 2)
        left += width
    if all(min(len(names[0]), _NAME) < 150 * _width(names) / left for names in runs(plan)):
        axes.set_xticks(middles, [_named(names, "\n") for names in runs(plan)], fontsize=7)
    else:
        labels = [_named(names, " ") for names in runs(plan)]
        axes.set_xticks(middles, labels, rotation=45, ha="right", rotation_mode="anchor", fontsize=7)
    axes.set_yticks(range(len(plan.axes)), [f"{name} (x{size})" for name, size in plan.axes.items()], fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set_title("what each mesh axis slices, layer by layer", fontsize=9, loc="left")
    axes.legend(
        shown.values(), map(_label, shown), fontsize=7, ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1),
        frameon=False,
    )  # fmt: skip
    axes.spines[:].set_visible(False)
    axes.margins(x=0.01, y=0.02)


def _width(names: list[str]) -> float:
    """Of a run's bar, in bars of one layer: 1,000 layers are not a thousand times as interesting as one."""
    return 1 + log2(len(names))


def _named(names: list[str], between: str) -> str:
    """`features.0 (14 layers)`; of a long name, its two ends."""
    name = names[0]
    if len(name) > _NAME:
        name = f"{name[: _NAME // 2 - 1]}..{name[1 - _NAME // 2 :]}"
    return name if len(names) == 1 else f"{name}{between}({len(names)} layers)"


def _label(dim: str) -> str:
    meaning = {"N": "samples", "F": "filters", "C": "input channels", "D": "depth", "H": "height", "W": "width"}
    return f"{dim}: {meaning[dim]}" if dim in meaning else "not sliced: work repeated"


def strategy_bars(plan: Plan) -> dict[str, dict[str, float]]:
    """Of every strategy that is possible, seconds by term: each adds up to the step that the table shows."""
    return {name: step_terms(row) for name, row in _possible(plan).items()}


def _possible(plan: Plan) -> dict[str, Mapping[str, Any]]:
    rows = {"layer-wise" if plan.certificate else "this plan": plan.predicted, **plan.baselines}
    return {name: row for name, row in rows.items() if row.get("feasible", True)}


def _draw_strategies(plan: Plan, axes: "Axes") -> None:
    rows, bars = _possible(plan), strategy_bars(plan)
    names = list(reversed(rows))
    left = [0.0] * len(names)
    for term in TERMS:
        widths = [1e3 * bars[name][term] for name in names]
        if any(widths):
            axes.barh(names, widths, left=left, color=TERM_COLOURS[term], label=term)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, (name, end) in enumerate(zip(names, left, strict=True)):
        told = f"  {seconds(rows[name]['iteration_s'])}, {amount(rows[name]['bytes_moved'], 'B')} sent"
        axes.text(end, row, told, va="center", fontsize=8)
    axes.set_xlim(0, 1.22 * max(left))
    axes.set_xlabel("; ".join(f"{term}: {meaning}" for term, meaning in MEANING.items()), fontsize=7)
    axes.set_title("predicted milliseconds per step, by term", fontsize=9, loc="left")
    axes.legend(
        fontsize=7, ncols=7, columnspacing=1, handlelength=1.2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False
    )
    axes.spines[["top", "right"]].set_visible(False)
