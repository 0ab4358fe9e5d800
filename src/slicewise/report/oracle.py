"""The oracle's answers as tables for people."""

from collections.abc import Sequence

from slicewise.strategies.forms import Formula
from slicewise.strategies.limits import Limit, Stop
from slicewise.strategies.projecting import ProjectionTable
from slicewise.strategies.showing import best_of, drawn
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import counted


def show_oracle(table: ProjectionTable, why: str = "") -> None:
    """`why`: the verdict in a paragraph, in place of the names of the best."""
    Page().show(*drawn(table, why or best_of(table)))


def show_limits(limits: Sequence[Limit], stops: Sequence[Stop]) -> None:
    """The binding ones; what costs less than a twentieth is in the JSON."""
    page = Page()
    page.say("\n", ("What binds", "bold"))
    for stop in stops:
        page.say(stop.told)
    table = Table("devices", "strategy", "limit", "price", keys=2)
    for limit in limits:
        if limit.binds:
            table.add_row(str(limit.devices), limit.strategy, limit.name, limit.told)
    page.show(table if len(table) else Prose("nothing"))


def show_forms(forms: Sequence[Formula]) -> None:
    """Each formula, and below it the same with its numbers."""
    page = Page()
    page.say("\n", ("The closed forms", "bold"), f" on {counted(forms[0].devices)}")
    for form in forms:
        start = f"{form.strategy}, {form.what}"
        page.say((start, "bold"), f" = {form.value}\n  {_indented(form.formula)}\n  {_indented(form.numbers)}")


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
