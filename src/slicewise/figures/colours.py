"""One colour per meaning: after Okabe and Ito, whose colours the colour-blind tell apart. Letters and names stand
beside every colour, so nothing is told by colour alone."""

from slicewise.graph.dims import Dim
from slicewise.strategy import LAYERWISE, STRATEGIES
from slicewise.terms import Group

BLUE, SKY, GREEN, YELLOW = "#0072b2", "#56b4e9", "#009e73", "#e8d94a"
ORANGE, RED, PINK, GREY = "#e69f00", "#d55e00", "#cc79a7", "#9aa4af"
VIOLET, BROWN = "#7b4fc9", "#a6761d"

_DIMS = {
    "N": (BLUE, "samples"),
    "F": (ORANGE, "filters"),
    "C": (RED, "input channels"),
    "D": (PINK, "depth"),
    "H": (GREEN, "height"),
    "W": (SKY, "width"),
    "A": (VIOLET, "heads"),
    "Q": (BROWN, "queries"),
    "K": (YELLOW, "keys"),
}
WAITING = "waiting"
TERMS = {
    "compute": BLUE,
    "update": SKY,
    "transfer": ORANGE,
    "halo": GREEN,
    "reduce": PINK,
    "sync": RED,
    WAITING: GREY,
}
GROUPS = {Group.COMPUTE: BLUE, Group.GRADIENT: RED, Group.LAYERWISE: ORANGE, Group.HALO: GREEN, Group.P2P: PINK}
HOLDERS = {
    "weights": BLUE,
    "gradients": RED,
    "optimizer state": YELLOW,
    "activations kept for backward": ORANGE,
    "in work": SKY,
    "total": GREY,
}
_LINES = (GREY, BLUE, SKY, ORANGE, RED, PINK, BROWN, GREEN, YELLOW, VIOLET)
_MARKS = ("square", "circle", "triangle", "square", "diamond", "cross", "triangle", "diamond", "circle", "star")
_NAMES = (*STRATEGIES, LAYERWISE)


def strategy_colour(name: str) -> str:
    return _LINES[_NAMES.index(name) % len(_LINES)] if name in _NAMES else GREY


def strategy_mark(name: str) -> str:
    return _MARKS[_NAMES.index(name) % len(_MARKS)] if name in _NAMES else "circle"


def dim_colour(dim: Dim | None) -> str:
    return GREY if dim is None else _DIMS[dim][0]


def dim_word(dim: str) -> str:
    """`dim_word("N") == "samples"`."""
    return _DIMS[dim][1]


def ink(colour: str) -> str:
    """Black or white: what can be read on a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 else "#111111"


def paler(colour: str, share: float) -> str:
    """`share` of the way to white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def darker(colour: str, share: float) -> str:
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part * (1 - share)):02x}" for part in parts)
