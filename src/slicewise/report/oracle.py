"""The oracle's answers as tables for people."""

from collections.abc import Callable, Sequence

from slicewise.strategies.forms import Formula
from slicewise.strategies.limits import Limit, Stop
from slicewise.strategies.projecting import ProjectionTable
from slicewise.strategies.showing import best_of, drawn
from slicewise.strategy import STRATEGIES, Form
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import counted

_SYMBOLS = {
    "p, p1, p2": "devices; of hybrids, p1 groups of p2 devices",
    "B, D": "samples of a batch, and those that the formula is for: here one iteration, D = B",
    "S(.)": "sum over layers; S_split, S_conv, ...: over those alone",
    "FW, BW, WU": "seconds of forward and backward of one sample, and of the weight update",
    "x, y, w": "items of a layer's input, output and weights; k, v: of keys and values",
    "dL/dx": "the gradient of x",
    "halo(x)": "items of x that neighbours exchange",
    "delta": "bytes of an item",
    "alpha, beta": "latency of a message, and seconds per byte, of one ring through all devices",
    "G": "layers that are products; of a pipeline, the most stages",
    "S, g": "of a pipeline: segments of a batch, and a stage",
    "M(B, w)": "memory for B samples and weights w",
    "min F, min C": "the fewest filters or input channels of a layer, whose name follows",
    "pw, ph, pd": "parts of width, height and depth; W, H, D of a limit: their extents",
    "[...]": "the value of a symbol",
}


def show_oracle(table: ProjectionTable, why: str = "", spelled: Callable[[str], str] = str) -> None:
    """`why`: the verdict in a paragraph, in place of the names of the best. `spelled`: with options as typed."""
    Page().show(*drawn(table, why or best_of(table), spelled))


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
    """What the symbols mean; then each formula, and below it the same with its numbers."""
    page = Page()
    page.say("\n", ("The closed forms", "bold"), f" on {counted(forms[0].devices)}")
    impossible = {form.strategy for form in forms if (form.what, form.value) == ("compute", "-")}
    legend = Table("symbol", "meaning", words=("symbol", "meaning"))
    for symbol, meaning in _SYMBOLS.items():
        legend.add_row(symbol, meaning)
    page.show(legend)
    for form in forms:
        if form.strategy in impossible:
            continue
        page.show(Prose((f"{form.strategy}, {form.what}", "bold"), f" = {form.value}"))
        for line in (*form.formula.splitlines(), *form.numbers.splitlines()):
            page.show(Prose(f"  {line}", hanging=4))
    if told := _impossible([form for form in forms if form.strategy in impossible]):
        page.say(told)


def _impossible(forms: Sequence[Formula]) -> str:
    """`Not possible on 16 devices: serial (it uses one).`"""
    reasons: dict[str, list[str]] = {}
    for form in forms:
        if form.what == "limit":
            alone = STRATEGIES[form.strategy].form is Form.WHOLE
            reasons.setdefault("it uses one" if alone else form.value.partition(": ")[2] or form.value, []).append(
                form.strategy
            )
    told = ", ".join(f"{' and '.join(names)} ({reason})" for reason, names in reasons.items())
    return f"Not possible on {counted(forms[0].devices)}: {told}." if told else ""
