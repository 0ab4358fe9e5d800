"""Figure 1 as SVG: a panel per network and strategy; per device count what was measured, and both projections."""

from collections.abc import Sequence
from typing import Protocol

from slicewise.figures.chart import heading, legend, upright
from slicewise.figures.colours import BLUE, GREY, ORANGE, SKY, VIOLET, YELLOW
from slicewise.figures.scales import Scale
from slicewise.figures.svg import Drawing
from slicewise.units import seconds

_WIDE, _HIGH, _PAD, _ACROSS = 300.0, 190.0, 16.0, 3
_MEASURED = (GREY, "measured")
_OURS = ((BLUE, "slicewise, compute"), (ORANGE, "slicewise, communication"))
_THEIRS = ((SKY, "the authors, compute"), (YELLOW, "the authors, communication"))
_UNTOLD = (VIOLET, "the authors, not told apart")


class Drawn(Protocol):
    """What a panel shows of a run."""

    @property
    def network(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def devices(self) -> int: ...
    @property
    def measured_s(self) -> float: ...
    @property
    def compute_s(self) -> float: ...
    @property
    def communication_s(self) -> float: ...
    @property
    def their_s(self) -> float | None: ...
    @property
    def theirs(self) -> tuple[float, float] | None: ...


def drawn(bars: Sequence[Drawn]) -> str:
    panels: dict[tuple[str, str], list[Drawn]] = {}
    for bar in bars:
        panels.setdefault((bar.network, bar.strategy), []).append(bar)
    drawing, width = Drawing(), 2 * _PAD + _ACROSS * _WIDE
    top = heading(
        drawing, _PAD, 24, "Measured and projected iterations", "Below each group: its number of GPUs.", width
    )
    top += 8 + legend(drawing, _PAD, top + 8, width, [_MEASURED, *_OURS, *_THEIRS, _UNTOLD])
    for place, ((network, strategy), some) in enumerate(panels.items()):
        x, y = _PAD + place % _ACROSS * _WIDE, top + place // _ACROSS * _HIGH
        _panel(drawing, x, y, f"{network}, {strategy}", sorted(some, key=lambda bar: bar.devices))
    bottom = top + -(-len(panels) // _ACROSS) * _HIGH
    told = "; ".join(
        f"{bar.network} {bar.strategy} on {bar.devices}: {seconds(bar.measured_s)} measured, "
        f"{seconds(bar.compute_s + bar.communication_s)} projected"
        for bar in bars
    )
    return drawing.svg(width, bottom + _PAD, f"Measured and projected iterations. {told}")


def _panel(drawing: Drawing, x: float, y: float, title: str, bars: Sequence[Drawn]) -> None:
    drawing.text(x, y + 16, title, size=12, class_="t b", within=_WIDE - 10)
    left, right, floor = x + 52, x + _WIDE - 12, y + _HIGH - 28
    most = max(max(bar.measured_s, bar.compute_s + bar.communication_s, bar.their_s or 0.0) for bar in bars)
    scale = Scale(low=0.0, high=most, start=floor, stop=y + 30)
    upright(drawing, scale, left, right, seconds)
    group = (right - left) / len(bars)
    for number, bar in enumerate(bars):
        stacks = [[(*_MEASURED, bar.measured_s)], _stack(_OURS, (bar.compute_s, bar.communication_s))]
        if bar.theirs is not None:
            stacks.append(_stack(_THEIRS, bar.theirs))
        elif bar.their_s is not None:
            stacks.append([(*_UNTOLD, bar.their_s)])
        each = min(0.8 * group / len(stacks), 26.0)
        start = left + number * group + (group - each * len(stacks)) / 2
        for place, stack in enumerate(stacks):
            height = 0.0
            for colour, words, value in stack:
                upper = scale(height + value)
                told = f"{title}, {bar.devices} GPUs, {words}: {value:.4g} s"
                drawing.rect(start + place * each, upper, each - 1, scale(height) - upper, fill=colour, title=told)
                height += value
        drawing.text(left + (number + 0.5) * group, floor + 14, str(bar.devices), size=10, class_="m", anchor="middle")
    drawing.line(left, floor, right, floor, "a")


def _stack(colours: Sequence[tuple[str, str]], values: tuple[float, float]) -> list[tuple[str, str, float]]:
    return [(colour, words, value) for (colour, words), value in zip(colours, values, strict=True)]
