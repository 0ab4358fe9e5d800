"""Options of machine time as a table for people."""

from collections.abc import Sequence

from rich.text import Text

from slicewise.cluster.margins import margin_of
from slicewise.report.oracle import hours, wide_console
from slicewise.report.tables import table_of
from slicewise.strategies.projecting import Oracle
from slicewise.strategies.provision import HOUR_S, Option


def show_options(oracle: Oracle, options: Sequence[Option], *, epochs: float, missed: str) -> None:
    out = wide_console()
    batch = f"batch {oracle.batch}" if oracle.batch is not None else f"{oracle.batch_per_device:g} samples per device"
    out.print(
        Text(
            f"{oracle.graph.name} on {oracle.cluster.name}: {epochs:g} epochs of {oracle.samples:,} samples, {batch}",
            style="bold",
        )
    )
    if not options:
        out.print(Text(missed))
        return
    priced = options[0].price is not None
    table = table_of(
        "devices", "nodes", "strategy", "split", "batch", "time", "range", "node-hours", "device-hours",
        *(["cost"] if priced else []), "efficiency",
    )  # fmt: skip
    for option in options:
        row = option.row
        table.add_row(
            str(row.devices),
            str(option.nodes),
            row.strategy,
            row.terms.split if row.terms else "",
            str(row.batch),
            hours(option.hours * HOUR_S),
            f"{hours(option.low_hours * HOUR_S)} - {hours(option.high_hours * HOUR_S)}",
            f"{option.node_hours:,.1f}",
            f"{option.device_hours:,.1f}",
            *([f"{option.cost:,.2f}"] if option.cost is not None else []),
            f"{row.efficiency:.0%}",
        )
    out.print(table)
    out.print(
        Text(
            f"cheapest first; no option is both slower and dearer than another. Range: "
            f"{margin_of(oracle.cluster)[1]}; hours and cost vary alike"
        )
    )
