"""What a fit learned, as a table for people and as remarks in the cluster's file."""

from collections.abc import Sequence

import numpy as np

from slicewise.fitting.fit import Fit, Fitted
from slicewise.fitting.runs import Run
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import amount, seconds


def show_fit(learned: Fit, runs: Sequence[Run]) -> None:
    measured = np.array([run.iteration_s for run in runs])
    accuracy = 1 - np.abs(np.array(learned.projected_s) - measured) / measured
    page = Page()
    page.say(
        f"The fitted runs are projected with {accuracy.mean():.0%} accuracy on average, {accuracy.min():.0%} at worst; "
        f"projections carry +-{learned.margin:.0%}."
    )
    table = Table("parameter", "preset", "fitted", "+-", "runs")
    for item in learned.parameters:
        fitted = (_spelled(item, item.value), f"{item.deviation:.0%}") if item.runs else ("-", "-")
        table.add_row(item.name, _spelled(item, item.preset), *fitted, str(item.runs))
    told = f"runs: how many of the {len(runs)} speak about it; without any the preset stays. +-: one standard deviation"
    page.show(table, Prose(told, style="dim"))


def remarks(learned: Fit, runs: int, source: str, base: str) -> list[str]:
    """Above the cluster's description: where its figures come from."""
    told = [
        f"{item.name}: {_spelled(item, item.value)} +- {item.deviation:.0%} from {item.runs} runs ({base} has "
        f"{_spelled(item, item.preset)})"
        for item in learned.parameters
        if item.runs
    ]
    return [f"Fitted to {runs} runs of {source} by `slicewise calibrate --from`, beginning with {base}.", *told, ""]


def _spelled(item: Fitted, value: float) -> str:
    if item.unit == "s":
        return seconds(value)
    return amount(value, item.unit) if item.unit else f"{value:.2f}"
