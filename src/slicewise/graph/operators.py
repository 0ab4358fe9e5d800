"""How an ATen operator call becomes a layer: what rules are given, what they return, and where they are registered.

One rule per family of operators (graph/rules), registered under the operators' names. A rule returns the Meaning of
a call; several, where one operator is several layers in a row; an empty tuple, where the result is the input itself; or
None, where this use of the operator is one it cannot follow. Torch-free: a `Call` carries shapes only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.window import Window

Shape = tuple[int, ...]


class Source(StrEnum):
    """Where an operand comes from."""

    INPUT = "input"  # another layer
    WEIGHT = "weight"
    BUFFER = "buffer"


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor among a call's arguments, and what each of its dims means: N, F, D, H, W or unknown."""

    shape: Shape
    letters: str
    source: Source = Source.INPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator call, as torch.export saw it."""

    operator: str  # "conv2d"
    arguments: Mapping[str, Any]  # everything but tensors has its value here
    operands: Mapping[str, Operand]  # by argument; the items of a list are "tensors.0", "tensors.1" ...
    shape: Shape

    @property
    def first(self) -> Operand:
        return next(iter(self.operands.values()))

    def spelled(self, /, **dims: str) -> dict[str, str]:
        """The letters of those operands that are there: a bias may be None."""
        return {name: dims[name] for name in self.operands}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A layer. `letters` is what the output's dims mean where this layer itself cannot slice them all."""

    kind: Kind
    operands: Mapping[str, str]  # the letters of every operand
    dims: str
    letters: str | None = None
    windows: Mapping[Dim, Window] = field(default_factory=dict)
    groups: int = 1
    statistics: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # beyond, or instead of, the operator and its arguments
    shape: Shape | None = None  # where it is not the call's: a layer before the last


Found = Meaning | tuple[Meaning, ...] | None
Rule = Callable[[Call], Found]
RULES: dict[str, Rule] = {}
SAME: tuple[Meaning, ...] = ()  # the result is the input


def rule(*operators: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def at(value: int | list[int], position: int) -> int:
    """Torch takes one number for all dims, or one each."""
    return value if isinstance(value, int) else value[position % len(value)]


def batched(call: Call) -> bool:
    """Whether dim 0 of the first operand is the batch."""
    return call.first.letters[:1] == Dim.N


def without(letters: str, dims: list[int]) -> str:
    """`letters` with the given positions whole."""
    whole = {dim % len(letters) for dim in dims}
    return "".join(WHOLE if position in whole else letter for position, letter in enumerate(letters))


def once_each(letters: str) -> str:
    """`letters` with those that come twice whole: no dim of a layer is two dims of a tensor."""
    return "".join(letter if letters.count(letter) == 1 else WHOLE for letter in letters)
