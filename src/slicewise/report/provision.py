"""Options of machine time as a table for people."""

from collections.abc import Callable, Sequence

from slicewise.strategies.options import HOUR_S, Option
from slicewise.strategies.projecting import Oracle
from slicewise.strategies.showing import hours
from slicewise.strategies.sureness import next_measurement, range_text
from slicewise.text.page import Page
from slicewise.text.tables import Table
from slicewise.units import amount, counted


def show_options(
    oracle: Oracle, options: Sequence[Option], *, epochs: float, missed: str | None, spelled: Callable[[str], str] = str
) -> None:
    """`missed`: why there are none; `spelled`: sentences with options as they are typed."""
    page = Page()
    batch = f"batch {oracle.batch}" if oracle.batch is not None else f"{oracle.batch_per_device:g} samples per device"
    asked = f"{epochs:g} epochs of {oracle.samples:,} samples, {batch}"
    page.say(f"{oracle.graph.name} on {oracle.cluster.name}: {asked}", style="bold")
    if missed is not None:
        page.say(missed)
        return
    good = [option for option in options if option.good]
    priced, timed = options[0].price is not None, options[0].deadline_h is not None
    if good:
        which = "Cheapest that is sure to keep the deadline" if timed else "Cheapest"
        page.say(f"{which}: {good[0]}. Fastest: {min(good, key=lambda option: option.hours)}.")
        if cheaper := options[: options.index(good[0])]:
            page.say(f"Cheaper, but not sure to keep it: {', '.join(map(_risky, cheaper))}.")
    else:
        page.say(f"None is sure to keep the deadline. Most likely: {max(options, key=_chance)}.")
    notes = {
        "in time": "the chance that the deadline holds (?: the range misses it, so do not count on it)",
        "input": "what storage must deliver, uncompressed",
    }
    table = Table(
        "devices", "strategy", "time", "range", *(["in time"] if timed else []), *(["cost"] if priced else []), "nodes",
        "device-hours", "node-hours", "efficiency", "input", "batch", "split", keys=2, notes=notes,
    )  # fmt: skip
    for option in options:
        row = option.row
        table.add_row(
            str(row.devices),
            row.strategy,
            hours(option.hours * HOUR_S),
            f"{hours(option.low_hours * HOUR_S)} - {hours(option.high_hours * HOUR_S)}",
            *([f"{_chance(option):.0%}{'' if option.good else ' ?'}"] if timed else []),
            *([f"{option.cost:,.2f}"] if option.cost is not None else []),
            str(option.nodes),
            f"{option.device_hours:,.1f}",
            f"{option.node_hours:,.1f}",
            f"{row.efficiency:.0%}",
            f"{amount(option.input_bytes_per_s, 'B')}/s",
            str(row.batch),
            row.terms.split if row.terms else "",
        )
    page.show(table)
    page.say(
        f"Cheapest first; no option is both slower and dearer than another. Range, of {options[0].row.strategy} on "
        f"{counted(options[0].row.devices)}: {range_text(options[0].row)}; hours and cost vary alike."
    )
    warned = [f"{counted(option.row.devices)}: {text}." for option in options for text in option.warnings]
    for text in warned:
        page.say(f"Warning, {text}")
    if advice := next_measurement(oracle, options[0].row):
        page.say(spelled(f"To narrow the range, {advice.told}"))


def _chance(option: Option) -> float:
    return option.deadline_chance or 0.0


def _risky(option: Option) -> str:
    """`8 devices for 294.43 (89% in time)`."""
    return f"{counted(option.row.devices)} for {option.paid} ({_chance(option):.0%} in time)"
