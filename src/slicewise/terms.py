"""The terms of a step: one list. Costs, files, tables, figures, diagnosis and the oracle go through it.

The term `halo` is `halo_s` in seconds and `halo_bytes` in bytes, in code and files. CONTRIBUTING says how to add one.
"""

from dataclasses import dataclass
from enum import StrEnum


class Nature(StrEnum):
    COMPUTE = "compute"  # the device works
    COMMUNICATION = "communication"  # data moves
    WAIT = "wait"  # the device does nothing: of a whole step, no layer has it


class Group(StrEnum):
    """What the oracle's table adds a term to, and how it tells it."""

    told: str

    def __new__(cls, value: str, told: str) -> "Group":
        made = str.__new__(cls, value)
        made._value_, made.told = value, told
        return made

    COMPUTE = "compute", "compute"
    GRADIENT = "gradient", "gradient exchange"
    LAYERWISE = "layerwise", "layer-wise collectives"  # between layers and inside them
    HALO = "halo", "halo exchange"
    P2P = "p2p", "transfers between stages"  # of a pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    name: str
    nature: Nature
    group: Group
    told: str  # what it is made of, in words: "12 ms of ..."
    parts: tuple[str, ...] = ()  # a layer knows these, and the term is their sum
    exposed: str = ""  # the term that says what a step waits for, where the rest is hidden

    @property
    def waited(self) -> str:
        """The name of what a step spends on it."""
        return self.exposed or self.name


TERMS = (
    Term(
        name="compute",
        nature=Nature.COMPUTE,
        group=Group.COMPUTE,
        told="compute",
        parts=("forward", "backward"),
    ),
    Term(
        name="transfer",
        nature=Nature.COMMUNICATION,
        group=Group.LAYERWISE,
        told="activations and their gradients between layers",
    ),
    Term(
        name="bubble",
        nature=Nature.WAIT,
        group=Group.COMPUTE,
        told="waiting of stages for each other",
    ),
    Term(
        name="halo",
        nature=Nature.COMMUNICATION,
        group=Group.HALO,
        told="borders",
    ),
    Term(
        name="reduce",
        nature=Nature.COMMUNICATION,
        group=Group.LAYERWISE,
        told="norm statistics",
    ),
    Term(
        name="sync",
        nature=Nature.COMMUNICATION,
        group=Group.GRADIENT,
        told="gradient all-reduce",
        exposed="exposed_sync",
    ),
    Term(
        name="exposed_sync",
        nature=Nature.WAIT,
        group=Group.GRADIENT,
        told="gradient all-reduce that backward does not hide",
    ),
    Term(
        name="update",
        nature=Nature.COMPUTE,
        group=Group.COMPUTE,
        told="weight update",
    ),
)
LAYER_TERMS = tuple(term for term in TERMS if term.nature is not Nature.WAIT)  # their sum is `additive_s`
MOVING = tuple(term.name for term in TERMS if term.nature is Nature.COMMUNICATION)
MOVING_GROUPS = tuple(group for group in Group if group is not Group.COMPUTE)
