"""Projections as sections: strategies over device counts, their terms, and the closed forms with their numbers."""

import re
from collections.abc import Sequence

import numpy as np

from slicewise.figures.agreement import scatter_figure
from slicewise.figures.scaling import scaling_figure, terms_figure
from slicewise.fitting.runs import Run
from slicewise.report.document_files import OracleFields, RowFields
from slicewise.report.documents import plain
from slicewise.report.sections import Facts, Figure, Grid, Part, Section, Sentences
from slicewise.strategies.showing import hours
from slicewise.units import amount, counted, seconds


def oracle_section(source: str, oracle: OracleFields, runs: Sequence[Run] = ()) -> Section:
    """`runs`: what was measured; those of the same network, strategy, count and batch stand beside the projections."""
    rows = [plain(row) for row in oracle.rows]
    points = _points(oracle, runs)
    measured = [(row.strategy, row.devices, run.iteration_s) for row, run in points]
    best = [row for row in oracle.rows if row.best and row.iteration_s]
    parts: list[Part] = [
        Facts(
            items=[
                (f"best on {counted(row.devices)}", f"{row.strategy}, {seconds(row.iteration_s or 0)}")
                for row in best[:6]
            ]
        )
    ]
    if oracle.best:
        parts.append(Sentences(lines=[oracle.best.why]))
    parts += [
        Figure(
            name="scaling", svg=scaling_figure(rows, measured), caption="Hover over a point to see its exact values."
        ),
        Figure(name="terms", svg=terms_figure(rows, measured)),
        *_agreement(oracle, runs, points),
        _table(oracle),
    ]
    if oracle.limits:
        parts.append(_limits(oracle))
    if oracle.closed_forms:
        parts.append(_forms(oracle))
    return Section(title=f"{oracle.model} on {oracle.cluster}: which strategy, on how many devices", parts=parts,
                   source=source)  # fmt: skip


def _points(oracle: OracleFields, runs: Sequence[Run]) -> list[tuple[RowFields, Run]]:
    asked = {(row.strategy, row.devices, row.batch): row for row in oracle.rows if row.iteration_s}
    mine = [run for run in runs if run.model == oracle.model]
    keys = [((run.strategy, run.devices, run.batch), run) for run in mine]
    return [(asked[key], run) for key, run in keys if key in asked]


def _agreement(oracle: OracleFields, runs: Sequence[Run], points: Sequence[tuple[RowFields, Run]]) -> list[Part]:
    """How close projections come; accuracy is 1 - |projected - measured| / measured."""
    if not points:
        told = f"None of the {len(runs)} measured runs is of {oracle.model} at one of these counts and batches."
        return [Sentences(lines=[told])] if runs else []
    steps = [
        (f"{row.strategy} on {counted(row.devices)}", row.iteration_s or 0.0, run.iteration_s) for row, run in points
    ]
    close = [1 - abs(projected - measured) / measured for _, projected, measured in steps]
    told = f"{len(points)} of {len(runs)} measured runs are of these settings; mean accuracy {np.mean(close):.1%}."
    return [Figure(name="scatter", svg=scatter_figure(steps), caption=told)]


def _table(oracle: OracleFields) -> Grid:
    rows = []
    for row in oracle.rows:
        known = row.iteration_s is not None
        rows.append(
            (
                f"{row.devices:,}",
                f"{row.strategy} *" if row.best else row.strategy,
                seconds(row.iteration_s) if row.iteration_s else "-",
                f"{seconds(row.low_s or 0)} - {seconds(row.high_s or 0)}" if known else "-",
                hours(row.epoch_s) if row.epoch_s else "-",
                amount(row.memory_bytes or 0, "B") if known else "-",
                f"{row.efficiency:.0%}" if row.efficiency is not None else "-",
                row.split or "",
                row.reason or "",
            )
        )
    head = ("devices", "strategy", "step", "range", "epoch", "memory", "efficiency", "split", "not possible because")
    return Grid(title="All projections", head=head, rows=rows, note="*: best at its device count", folded=True)


def _limits(oracle: OracleFields) -> Grid:
    rows = [(f"{limit.devices:,}", limit.strategy, limit.limit, limit.told) for limit in oracle.limits if limit.binds]
    note = "What costs less than a twentieth of a step is left out."
    head = ("devices", "strategy", "limit", "price")
    return Grid(title="What holds each strategy back", head=head, rows=rows, note=note, folded=True)


def _forms(oracle: OracleFields) -> Grid:
    rows, before = [], ""
    for form in oracle.closed_forms:
        name = "" if form.strategy == before else form.strategy
        rows.append((name, form.what, _typeset(form.formula), _typeset(form.numbers), form.value))
        before = form.strategy
    counts = sorted({form.devices for form in oracle.closed_forms})
    return Grid(
        title=f"The closed forms, with their numbers on {', '.join(map(counted, counts))}",
        head=("strategy", "what", "formula", "with its numbers", "gives"),
        rows=rows,
        note=SYMBOLS,
    )


_SIGNS = (
    (r"\balpha\b", "α"),
    (r"\bbeta\b", "β"),
    (r"\bdelta\b", "δ"),
    (r"\bS(?=[(_])", "Σ"),
    ("<=", "≤"),
    (" {2,}", "  "),
)


def _typeset(formula: str) -> str:
    for words, sign in _SIGNS:
        formula = re.sub(words, sign, formula)
    return formula


SYMBOLS = (
    "Of one step: D = B, the samples of the batch. p: devices. FW, BW: time of a layer forward and backward for one "
    "sample; WU: its weight update. x, y, w: items that it reads, writes and holds as weights. Σ: the sum over layers. "
    "δ: bytes of an item. α: latency. β: seconds per byte. G: layers that are matrix products. S: segments."
)
