"""Every strategy and what is known of it: the one list of their names.

Whoever needs to know what a strategy does reads it here. Its closed form is attached in strategies/registry.py, its
plan in search/baselines.py: those need more than this module may import.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

LAYERWISE = "layerwise"  # the planner's optimum: searched, not one rule for every layer


class Form(Enum):
    """What a strategy makes of a network."""

    WHOLE = "everything on one device"
    SLICED = "a slicing of every layer"
    STAGES = "stages, one per device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    name: str
    told: str  # for help
    form: Form = Form.SLICED
    cuts: str = ""  # the letters of the dims that it slices
    hybrid: bool = False  # p1 groups of p2 devices: samples between groups, the rest inside
    thinned: bool = False  # every layer's compute is divided beyond samples
    compared: bool = False  # stands beside every plan; the others take longer than a search may

    @property
    def planned(self) -> bool:
        """Whether it can be planned and run on several devices."""
        return self.form is not Form.WHOLE

    @property
    def staged(self) -> bool:
        """Whether one device reads the batch for all: nobody has samples of its own."""
        return self.thinned and not self.hybrid

    @property
    def plain(self) -> bool:
        """Whether nothing but samples is cut."""
        return self.form is not Form.STAGES and self.cuts in ("", "N")


SERIAL = Strategy(name="serial", told="everything on one device", form=Form.WHOLE)

# in the order of the tables: of strategies that come to the same, the plainest stands first
STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        SERIAL,
        Strategy(name="data", told="every layer by sample", cuts="N", compared=True),
        Strategy(name="spatial", told="every layer by one cut of space", cuts="DHW", thinned=True, compared=True),
        Strategy(name="filter", told="every layer by output channel", cuts="F", thinned=True, compared=True),
        Strategy(name="channel", told="every layer by input channel", cuts="C", thinned=True),
        Strategy(
            name="sequence",
            told="every layer by token, keys and values gathered for attention",
            cuts="DHWQ",
            thinned=True,
        ),
        Strategy(name="pipeline", told="the network cut into stages", form=Form.STAGES),
        Strategy(
            name="data+filter",
            told="by sample between groups of devices, by output channel inside them",
            cuts="NF",
            hybrid=True,
            thinned=True,
        ),
        Strategy(
            name="data+spatial",
            told="by sample between groups of devices, by space inside them",
            cuts="NDHW",
            hybrid=True,
            thinned=True,
        ),
        Strategy(
            name="data+sequence",
            told="by sample between groups of devices, by token inside them",
            cuts="NDHWQ",
            hybrid=True,
            thinned=True,
        ),
        Strategy(
            name="owt", told="by sample up to the first linear layer, then by output channel", cuts="NF", compared=True
        ),
    )
}
PLANNED = tuple(name for name, strategy in STRATEGIES.items() if strategy.planned)


def listed(names: tuple[str, ...]) -> str:
    """`data: every layer by sample; ...`, for help."""
    return "; ".join(f"{name}: {STRATEGIES[name].told}" for name in names)
