"""The oracle's rows as a table for people."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import ConsoleRenderable

from slicewise.strategies.projection import Projection
from slicewise.strategies.sureness import next_measurement, range_text
from slicewise.strategy import LAYERWISE, SERIAL
from slicewise.terms import MOVING_GROUPS, Group
from slicewise.text.page import Prose, plain_text
from slicewise.text.tables import Table
from slicewise.units import amount, counted, seconds

if TYPE_CHECKING:
    from slicewise.strategies.projecting import ProjectionTable


def oracle_text(table: "ProjectionTable") -> str:
    return plain_text(*drawn(table, best_of(table)))


def drawn(projected: "ProjectionTable", answer: str, spelled: Callable[[str], str] = str) -> list[ConsoleRenderable]:
    """`spelled`: sentences as their reader names options."""
    oracle = projected.oracle
    possible = [row for row in projected if row.terms]
    kinds = [group for group in MOVING_GROUPS if any(row.terms.seconds(group) for row in possible if row.terms)]
    table = Table(
        "devices", "strategy", "iteration", "range", *(["epoch"] if oracle.samples else []), "memory", "efficiency",
        "samples/s", "compute", "of it update", *map(_head, kinds), "split", keys=2,
    )  # fmt: skip
    before = 0
    for row in possible:
        if row.devices != before and before:
            table.add_section()
        style = "bold" if row.best else "" if row.feasible else "dim"
        table.add_row(*_cells(row, kinds, with_epoch=bool(oracle.samples)), style=style)
        before = row.devices
    batch = f"batch {oracle.batch}" if oracle.batch is not None else f"{oracle.batch_per_device:g} samples per device"
    head = f"{oracle.graph.name} on {oracle.cluster.name}, {batch}, engine {oracle.engine.name}"
    notes = Prose(spelled("\n".join(_notes(projected))))
    return [Prose(head, style="bold"), Prose(spelled(answer)), *([table] if possible else []), notes]


def best_of(projected: "ProjectionTable") -> str:
    """`Best: data on 16 devices (120 ms), owt on 64 devices (129 ms).`"""
    best = [f"{row.strategy} on {counted(row.devices)} ({seconds(row.iteration_s)})" for row in projected if row.best]
    return f"Best: {', '.join(best)}." if best else "Nothing is possible."


def _head(group: Group) -> str:
    """`layerwise` is a row's name, the planner's optimum: its column is named for what it holds."""
    return "collectives" if group is Group.LAYERWISE else group.value


def _cells(row: Projection, kinds: Sequence[Group], *, with_epoch: bool) -> Sequence[str]:
    terms = row.terms
    assert terms is not None
    memory = amount(terms.memory_bytes, "B")
    waits = [terms.seconds(kind) for kind in kinds]
    return [
        str(row.devices),
        f"{row.strategy} *" if row.best else row.strategy,
        seconds(row.iteration_s),
        f"{seconds(row.low_s)} - {seconds(row.high_s)}",
        *([hours(row.epoch_s or 0.0)] if with_epoch else []),
        memory if row.feasible else f"{memory} !",
        f"{row.efficiency:.0%}",
        f"{row.samples_per_s:,.0f}" if row.samples_per_s >= 10 else f"{row.samples_per_s:.2f}",
        seconds(terms.compute_s),
        seconds(terms.update_s),
        *(seconds(wait) if wait else "-" for wait in waits),
        terms.split,
    ]


def _notes(projected: "ProjectionTable") -> list[str]:
    oracle = projected.oracle
    limit = amount(oracle.memory_limit_bytes, "B")
    notes = [f"*: best at its device count. !: above the memory limit of {limit}."]
    if best := projected.best() or next((row for row in projected if row.terms), None):
        notes.append(f"Range, of {best.strategy} on {counted(best.devices)}: {range_text(best)}.")
        notes.extend(f"Unlike anything fitted: {told}." for told in best.doubt.unlike)
        if advice := next_measurement(oracle, best):
            notes.append(f"To narrow it, {advice.told}")
    if any(row.strategy == LAYERWISE for row in projected) and not oracle.engine.comparable_with_plans:
        other = '`engine="slicewise"`'
        notes.append(f"layerwise is priced by the planner's model, the others by closed forms: see {other}")
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in projected:
        if not row.terms and row.reason:
            reasons.setdefault((row.strategy, row.reason), []).append(row.devices)
    for (strategy, reason), counts in reasons.items():
        why = "it uses one" if strategy == SERIAL.name else reason.partition(": ")[2] or reason
        notes.append(f"Not possible on {', '.join(map(str, counts))} devices: {strategy} ({why}).")
    return notes


def hours(value_s: float) -> str:
    """`hours(5400) == '1 h 30 min'`."""
    if value_s < 60:
        return seconds(value_s)
    minutes = round(value_s / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min" if minutes >= 60 else f"{value_s / 60:.1f} min"
