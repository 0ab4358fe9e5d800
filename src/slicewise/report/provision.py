"""Options of machine time as a table for people."""

from collections.abc import Sequence

from slicewise.cluster.margins import margin_of
from slicewise.strategies.options import HOUR_S, Option
from slicewise.strategies.projecting import Oracle
from slicewise.strategies.showing import counted, hours
from slicewise.text.page import Page
from slicewise.text.tables import Table


def show_options(oracle: Oracle, options: Sequence[Option], *, epochs: float, missed: str) -> None:
    page = Page()
    batch = f"batch {oracle.batch}" if oracle.batch is not None else f"{oracle.batch_per_device:g} samples per device"
    asked = f"{epochs:g} epochs of {oracle.samples:,} samples, {batch}"
    page.say(f"{oracle.graph.name} on {oracle.cluster.name}: {asked}", style="bold")
    if not options:
        page.say(missed)
        return
    cheapest, fastest = options[0], min(options, key=lambda option: option.hours)
    page.say(f"Cheapest: {_told(cheapest)}. Fastest: {_told(fastest)}.")
    priced = options[0].price is not None
    table = Table(
        "devices", "strategy", "time", "range", *(["cost"] if priced else []), "nodes", "device-hours", "node-hours",
        "efficiency", "batch", "split", keys=2,
    )  # fmt: skip
    for option in options:
        row = option.row
        table.add_row(
            str(row.devices),
            row.strategy,
            hours(option.hours * HOUR_S),
            f"{hours(option.low_hours * HOUR_S)} - {hours(option.high_hours * HOUR_S)}",
            *([f"{option.cost:,.2f}"] if option.cost is not None else []),
            str(option.nodes),
            f"{option.device_hours:,.1f}",
            f"{option.node_hours:,.1f}",
            f"{row.efficiency:.0%}",
            str(row.batch),
            row.terms.split if row.terms else "",
        )
    page.show(table)
    page.say(
        f"Cheapest first; no option is both slower and dearer than another. "
        f"Range: {margin_of(oracle.cluster)[1]}; hours and cost vary alike."
    )


def _told(option: Option) -> str:
    """`16 devices (data) in 7 h 29 min, 119.7 device-hours`."""
    told = f"{counted(option.row.devices)} ({option.row.strategy}) in {hours(option.hours * HOUR_S)}"
    return f"{told}, {option.device_hours:,.1f} device-hours"
