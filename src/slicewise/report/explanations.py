"""Explanations for people: sentences first, then a table."""

from collections.abc import Mapping
from typing import Any

from slicewise.cost.breakdown import Cost
from slicewise.explaining.decisions import Explanation
from slicewise.explaining.differences import Comparison
from slicewise.explaining.what_if import WhatIf
from slicewise.explaining.words import balance, heading, sentences, short, span
from slicewise.report.terminal import PREDICTED, PREDICTED_NOTES, prediction_cells, telling
from slicewise.terms import LAYER_TERMS
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import amount, seconds

_ROWS = 40
_CHANGES = 8  # of one difference


def show_explanation(explanation: Explanation) -> None:
    page = Page()
    page.say(heading(explanation))
    if len(explanation.decisions) == 1:
        _show_one(page, explanation)
        return
    if explanation.most:
        page.say("\n", ("What matters most", "bold"), " (each with all other layers as they are)")
        for number, decision in enumerate(explanation.most, 1):
            page.show(Prose(f"{number}. {sentences(decision, explanation)}", hanging=3))
    reference = explanation.reference
    notes = {
        "worth": f"what a step would take longer with these layers alone sliced as under {reference} parallelism",
        "why": "less work (-) or more (+), also where it hides behind compute",
        "more": "what a step would take longer with the next best",
    }
    table = Table(
        "layers", "slicing", reference, "worth", "why", "next best", "more", "flips at", words=(reference,), notes=notes
    )
    for decision in explanation.decisions:
        other, runner_up = decision.reference, decision.runner_up
        table.add_row(
            span(decision.layers),
            decision.slicing,
            other.slicing if other else "same",
            seconds(decision.worth_s) if other else "",
            reason(decision.cost - other.cost) if other else "",
            runner_up.slicing if runner_up else "none",
            seconds(decision.longer_s(runner_up)) if runner_up else "",
            "\n".join(f"{short(flip)}: {flip.becomes}" for flip in decision.flips),
        )
    told = "Worths include the layout changes on both sides, so they need not add up. `--layer NAME` shows one layer."
    page.show(table, Prose(told, style="dim"))


def _show_one(page: Page, explanation: Explanation) -> None:
    (decision,) = explanation.decisions
    page.say(sentences(decision, explanation))
    costs = {f"{decision.slicing} (chosen)": decision.cost}
    steps_s = dict.fromkeys(costs, decision.iteration_s)
    for role, other in ((explanation.reference, decision.reference), ("next best", decision.runner_up)):
        if other is not None:
            costs[f"{other.slicing} ({role})"] = other.cost
            steps_s[f"{other.slicing} ({role})"] = other.iteration_s
    page.show(_terms(costs, steps_s))
    page.say("total: the work of this layer and at its borders, also where it hides behind compute", style="dim")


def _terms(costs: Mapping[str, Cost], steps_s: Mapping[str, float]) -> Table:
    """One column per cost, one row per term: seconds, and bytes where it moves some. Last, the network's step."""
    table = Table("per step", *costs)
    for term in (*(term.name for term in LAYER_TERMS), "total"):
        if not any(cost.seconds(term) for cost in costs.values()):
            continue
        table.add_row(term, *(_term(cost, term) for cost in costs.values()), style="bold" if term == "total" else "")
    table.add_row("memory", *(amount(cost.memory_bytes, "B") for cost in costs.values()))
    table.add_row("whole step", *map(seconds, steps_s.values()))
    return table


def _term(cost: Cost, term: str) -> str:
    time = seconds(cost.seconds(term))
    moved = cost.bytes_moved if term == "total" else cost.sent_bytes.get(term, 0)
    return f"{time}, {amount(moved, 'B')}" if moved else time


def reason(change: Cost) -> str:
    """`-42.5 ms sync, +3.1 ms transfer`: the terms that differ by more than a twentieth of the largest difference."""
    changes = {term.name: change.seconds(term.name) for term in LAYER_TERMS}
    largest = max(map(abs, changes.values()))
    told = [(term, value) for term, value in changes.items() if abs(value) > largest / 20 and largest > 1e-9]
    told.sort(key=lambda item: -abs(item[1]))
    return ", ".join(f"{'+' if value > 0 else '-'}{seconds(abs(value))} {term}" for term, value in told) or "the same"


def show_comparison(comparison: Comparison) -> None:
    page = Page()
    names = [f"{letter}: {title}" for letter, title in zip("AB", comparison.titles, strict=True)]
    for name in names:
        page.say(name)
    before, after = comparison.predicted
    page.say(_steps({"A": before, "B": after}))
    if not comparison.changes:
        page.say("Both slice every layer alike.")
    page.show(_predictions({"A": before, "B": after}))
    if comparison.changes:
        _show_changes(page, comparison, "A", "B")


def _steps(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """`A step takes 31.2 ms (A), 55.5 ms (B).`"""
    told = ", ".join(f"{seconds(row['iteration_s'])} ({name})" for name, row in rows.items())
    return f"A step takes {told}."


def _show_changes(page: Page, comparison: Comparison, one: str, other: str) -> None:
    """What each difference is worth, or, where machine or batch differ, the differences alone."""
    if comparison.differences is None:
        table = Table("layers", one, other, words=(one, other))
        for change in comparison.changes[:_ROWS]:
            table.add_row(span(change.layers), change.before, change.after)
        told = "Machine, batch or training differ too, so no single difference has a price."
    else:
        notes = {
            "undone": "extra work if only this change were reverted",
            "saves": f"work of {other} less than of {one}, layers joined by edges together",
        }
        table = Table("layers", one, other, "undone", "saves", "why", words=(one, other), notes=notes)
        joined = any(len(difference.changes) > 1 for difference in comparison.differences)
        for difference in comparison.differences[:_ROWS]:
            if joined:
                table.add_section()
            first = (seconds(difference.saved_s), balance(difference.after - difference.before))
            for change in difference.changes[:_CHANGES]:
                worth = seconds(change.worth_s or 0.0)
                table.add_row(span(change.layers), change.before, change.after, worth, *first)
                first = ("", "")
            if len(difference.changes) > _CHANGES:
                table.add_row(f"and {len(difference.changes) - _CHANGES} more", "", "", "", "", "")
        saved_s = comparison.saved_s
        told = (
            f"In all, {other} has {seconds(abs(saved_s))} {'less' if saved_s >= 0 else 'more'} work than {one}. "
            "Work is compute and communication; what hides behind compute counts here, but not in the step."
        )
    page.show(table, Prose(told, style="dim"))
    rows = comparison.changes if comparison.differences is None else comparison.differences
    if len(rows) > _ROWS:
        page.say(f"and {len(rows) - _ROWS} more, in --json")


def _predictions(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("plan", "step", *PREDICTED, first=telling(rows.values()), notes=PREDICTED_NOTES)
    for name, row in rows.items():
        table.add_row(name, seconds(row["iteration_s"]), *prediction_cells(row))
    return table


def show_what_if(answer: WhatIf) -> None:
    page = Page()
    after = answer.after
    where = f" on {after.cluster}, {after.devices} devices, batch {after.batch}, if {', '.join(answer.changes)}"
    page.say((after.model, "bold"), where)
    told = {"as it is": answer.before, "kept": answer.kept, "planned again": after.predicted}
    rows = {name: row for name, row in told.items() if row is not None}
    page.say(_steps(rows))
    if answer.kept is None:
        page.say(f"The slicings cannot be kept: {answer.reason}.")
    elif not answer.comparison.changes:
        page.say("Every layer stays as it is.")
    page.show(_predictions(rows))
    if answer.kept is None or answer.comparison.changes:
        _show_changes(page, answer.comparison, "kept" if answer.kept else "as it is", "planned again")
