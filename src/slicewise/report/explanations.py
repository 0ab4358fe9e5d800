"""Explanations for people: sentences first, then a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from slicewise.cost.breakdown import TERMS, Cost
from slicewise.explaining.decisions import Explanation
from slicewise.explaining.differences import Change, Comparison
from slicewise.explaining.what_if import WhatIf
from slicewise.explaining.words import balance, heading, sentences, short, span
from slicewise.report.tables import console, table_of
from slicewise.report.terminal import PREDICTED, prediction_cells
from slicewise.units import amount, seconds

_ROWS = 40


def show_explanation(explanation: Explanation) -> None:
    out = console()
    out.print(heading(explanation), highlight=False)
    if len(explanation.decisions) == 1:
        _show_one(explanation)
        return
    if explanation.most:
        out.print("\n[bold]What matters most[/] (each with all other layers as they are)", highlight=False)
        for number, decision in enumerate(explanation.most, 1):
            out.print(f"{number}. {sentences(decision, explanation)}", highlight=False)
    out.print()
    reference = explanation.reference
    table = table_of("layers", "slicing", reference, "worth", "why", "next best", "more", "flips at")
    for decision in explanation.decisions:
        other, runner_up = decision.reference, decision.runner_up
        table.add_row(
            span(decision.layers),
            decision.slicing,
            other.slicing if other else "same",
            seconds(decision.worth_s) if other else "",
            reason(decision.cost - other.cost) if other else "",
            runner_up.slicing if runner_up else "none",
            seconds(runner_up.cost.total_s - decision.cost.total_s) if runner_up else "",
            "\n".join(f"{short(flip)}: {flip.becomes}" for flip in decision.flips),
        )
    table.caption = (
        f"worth: what a step would take longer, were these layers sliced as under {reference} parallelism and all "
        f"others as they are, so it counts the layout changes on both sides and need not add up; "
        f"`--layer NAME` shows one layer"
    )
    out.print(table)


def _show_one(explanation: Explanation) -> None:
    out = console()
    (decision,) = explanation.decisions
    out.print(sentences(decision, explanation), highlight=False)
    costs = {f"{decision.slicing} (chosen)": decision.cost}
    for role, other in ((explanation.reference, decision.reference), ("next best", decision.runner_up)):
        if other is not None:
            costs[f"{other.slicing} ({role})"] = other.cost
    out.print(_terms(costs))


def _terms(costs: Mapping[str, Cost]) -> Table:
    """One column per cost, one row per term: seconds, and bytes where it moves some."""
    table = table_of("per step", *costs)
    for term in (*TERMS, "total"):
        if not any(getattr(cost, f"{term}_s") for cost in costs.values()):
            continue
        table.add_row(term, *(_term(cost, term) for cost in costs.values()), style="bold" if term == "total" else None)
    table.add_row("memory", *(amount(cost.memory_bytes, "B") for cost in costs.values()))
    return table


def _term(cost: Cost, term: str) -> str:
    time = seconds(getattr(cost, f"{term}_s"))
    moved = cost.bytes_moved if term == "total" else getattr(cost, f"{term}_bytes", 0)
    return f"{time}, {amount(moved, 'B')}" if moved else time


def reason(change: Cost) -> str:
    """`-42.5 ms sync, +3.1 ms transfer`: the terms that differ by more than a twentieth of the largest difference."""
    changes = {term: float(getattr(change, f"{term}_s")) for term in TERMS}
    largest = max(map(abs, changes.values()))
    told = [(term, value) for term, value in changes.items() if abs(value) > largest / 20 and largest > 1e-9]
    told.sort(key=lambda item: -abs(item[1]))
    return ", ".join(f"{'+' if value > 0 else '-'}{seconds(abs(value))} {term}" for term, value in told) or "the same"


def show_comparison(comparison: Comparison) -> None:
    out = console()
    names = [f"{letter}: {title}" for letter, title in zip("AB", comparison.titles, strict=True)]
    for name in names:
        out.print(name, highlight=False)
    out.print(_predictions({"A": comparison.predicted[0], "B": comparison.predicted[1]}))
    if not comparison.changes:
        out.print("Both slice every layer alike.", highlight=False)
        return
    _show_changes(comparison, "A", "B")


def _show_changes(comparison: Comparison, one: str, other: str) -> None:
    """What each difference is worth, or, where machine or batch differ, the differences alone."""
    out = console()
    if comparison.differences is None:
        table = table_of("layers", one, other)
        for change in comparison.changes[:_ROWS]:
            table.add_row(span(change.layers), change.before, change.after)
        table.caption = "machine, batch or training differ too, so no single difference has a price"
    else:
        table = table_of("layers", one, other, "undone", "saves", "why")
        for difference in comparison.differences[:_ROWS]:
            table.add_row(
                *_lines(difference.changes),
                seconds(difference.saved_s),
                balance(difference.after - difference.before),
            )
        table.caption = (
            f"saves: of {other} over {one}, layers joined by edges together; the rows add up to "
            f"{seconds(comparison.saved_s)}. undone: what a step would take longer, were only this change undone"
        )
    out.print(table)
    rows = comparison.changes if comparison.differences is None else comparison.differences
    if len(rows) > _ROWS:
        out.print(f"and {len(rows) - _ROWS} more, in --json", highlight=False)


def _lines(changes: Sequence[Change]) -> tuple[str, str, str, str]:
    shown = changes[:8]
    more = f"\nand {len(changes) - 8} more" if len(changes) > 8 else ""
    return (
        "\n".join(span(change.layers) for change in shown) + more,
        "\n".join(change.before for change in shown),
        "\n".join(change.after for change in shown),
        "\n".join(seconds(change.worth_s or 0.0) for change in shown),
    )


def _predictions(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    table = table_of("plan", *PREDICTED)
    for name, row in rows.items():
        table.add_row(name, *prediction_cells(row))
    return table


def show_what_if(answer: WhatIf) -> None:
    out = console()
    after = answer.after
    out.print(
        f"[bold]{after.model}[/] on {after.cluster}, {after.devices} devices, batch {after.batch}, if "
        f"{', '.join(answer.changes)}",
        highlight=False,
    )
    rows = {"as it is": answer.before, "kept": answer.kept, "planned again": after.predicted}
    out.print(_predictions({name: row for name, row in rows.items() if row is not None}))
    if answer.kept is None:
        out.print(f"The slicings cannot be kept: {answer.reason}.", highlight=False)
    elif not answer.comparison.changes:
        out.print("Every layer stays as it is.", highlight=False)
        return
    _show_changes(answer.comparison, "kept" if answer.kept else "as it is", "planned again")
