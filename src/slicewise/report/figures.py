"""Pictures of plans, by matplotlib (`pip install slicewise[figures]`)."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.errors import RequestError
from slicewise.plans.plan import Plan
from slicewise.saving import write_file

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
}


def draw_plan(plan: Plan, path: Path) -> None:
    """How each layer is sliced, and where each strategy's time goes."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise RequestError("a figure needs matplotlib; `pip install slicewise[figures]`") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "slicewise"  # the same plan gives the same file
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(11, 6.4), height_ratios=[1.2, 1], constrained_layout=True)
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


def _draw_slicings(plan: Plan, axes: "Axes") -> None:
    """One column per layer, one row per mesh axis: the dim that the axis slices."""
    shown: dict[str, Any] = {}
    names = [name for name, kind in plan.kinds.items() if kind not in ("input", "output", "fork")]
    for column, name in enumerate(names):
        for row, dim in enumerate(plan.slicings[name]):
            letter = dim.value if dim is not None else WHOLE
            bar = axes.bar(column, 0.94, 0.94, bottom=row - 0.47, color=DIM_COLOURS[letter])
            shown.setdefault(letter, bar)
            if dim is not None:
                axes.text(column, row, letter, ha="center", va="center", fontsize=8, color="white")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(plan.axes)), [f"{name} (x{size})" for name, size in plan.axes.items()], fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set_title("what each mesh axis slices, layer by layer", fontsize=9, loc="left")
    labels = [_label(letter) for letter in shown]
    axes.legend(
        shown.values(), labels, fontsize=7, ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1), frameon=False
    )
    axes.spines[:].set_visible(False)
    axes.margins(x=0.01, y=0.02)


def _label(dim: str) -> str:
    meaning = {"N": "samples", "F": "filters", "C": "input channels", "D": "depth", "H": "height", "W": "width"}
    return f"{dim}: {meaning[dim]}" if dim in meaning else "not sliced: work repeated"


def _draw_strategies(plan: Plan, axes: "Axes") -> None:
    rows = {"layer-wise" if plan.certificate else "this plan": plan.predicted, **plan.baselines}
    possible = {name: row for name, row in rows.items() if row.get("feasible", True)}
    names = list(reversed(possible))
    left = [0.0] * len(names)
    for term, colour in TERM_COLOURS.items():
        key = "exposed_sync_s" if term == "sync" else f"{term}_s"
        widths = [1e3 * possible[name][key] for name in names]
        axes.barh(names, widths, left=left, color=colour, label=term)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, (name, end) in enumerate(zip(names, left, strict=True)):
        moved = possible[name]["bytes_moved"] / 1e9
        axes.text(end, row, f"  {end:.1f} ms, {moved:.2f} GB sent", va="center", fontsize=8)
    axes.set_xlim(0, 1.22 * max(left))
    axes.set_title("predicted milliseconds per step, by term (sync: what is not hidden)", fontsize=9, loc="left")
    axes.legend(
        fontsize=7, ncols=6, columnspacing=1, handlelength=1.2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False
    )
    axes.spines[["top", "right"]].set_visible(False)
