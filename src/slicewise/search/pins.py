"""What the user has decided already: `features.*=N` fixes, `*=C` forbids."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError, RequestError
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices

_DIM = re.compile(rf"([{''.join(Dim)}])([1-9][0-9]{{0,8}})?")


@dataclass(frozen=True)
class Pin:
    """Layers whose name matches, and dims, each with a degree or 0 for any."""

    pattern: str
    degrees: tuple[tuple[Dim, int], ...]

    @classmethod
    def parse(cls, text: str, option: str) -> "Pin":
        pattern, separator, dims = text.rpartition("=")
        found = _DIM.findall(dims)
        if dims == "whole":
            found = []
        elif not found or "".join(map("".join, found)) != dims or len(dict(found)) < len(found):
            raise RequestError(
                f"{option} {text!r}: {dims!r} are no dims; write PATTERN=DIMS with DIMS of "
                f"{', '.join(Dim)}, each with a degree or not, or 'whole', as in 'features.*=N' or 'fc1=N4F4'"
            )
        return cls(pattern if separator else "*", tuple((Dim(letter), int(degree or 0)) for letter, degree in found))

    def __str__(self) -> str:
        dims = "".join(f"{dim}{degree or ''}" for dim, degree in self.degrees)
        return f"{self.pattern}={dims or 'whole'}"


@dataclass(frozen=True)
class Pins:
    """`fixed` layers are sliced along exactly these dims; `forbidden` ones along none of them, or not left whole."""

    fixed: tuple[Pin, ...] = ()
    forbidden: tuple[Pin, ...] = ()

    @classmethod
    def parse(cls, fix: Sequence[str] = (), forbid: Sequence[str] = ()) -> "Pins":
        return cls(tuple(Pin.parse(text, "fix") for text in fix), tuple(Pin.parse(text, "forbid") for text in forbid))

    @cached_property
    def spelled(self) -> tuple[str, ...]:
        return tuple(f"fix {pin}" for pin in self.fixed) + tuple(f"forbid {pin}" for pin in self.forbidden)

    def check(self, names: Sequence[str]) -> None:
        """Refuse patterns that no layer matches: a typing error would go unseen."""
        for pin in (*self.fixed, *self.forbidden):
            if not any(fnmatchcase(name, pin.pattern) for name in names):
                known = ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
                raise RequestError(f"no layer matches {pin.pattern!r}; layers are called {known}")

    def of(self, layer: Layer) -> tuple[tuple[Pin, ...], tuple[Pin, ...]]:
        """The pins that concern `layer`; what ranks feed and get is not theirs to decide."""
        if layer.kind.has(Trait.EDGE):
            return (), ()
        return (
            tuple(pin for pin in self.fixed if fnmatchcase(layer.name, pin.pattern)),
            tuple(pin for pin in self.forbidden if fnmatchcase(layer.name, pin.pattern)),
        )

    def restrict(self, layer: Layer, choices: Choices) -> Choices:
        fixed, forbidden = self.of(layer)
        allowed = self.allows(layer, choices)
        if not allowed.any():
            pins = ", ".join([f"fix {pin}" for pin in fixed] + [f"forbid {pin}" for pin in forbidden])
            dims = [dim.value for dim in Dim if (choices.degrees(dim) > 1).any()]
            raise InfeasibleError(
                f"{layer.name}: no legal slicing is left under {pins}; it can be sliced along "
                f"{', '.join(dims) or 'nothing'}"
            )
        return choices if allowed.all() else choices.rows(np.flatnonzero(allowed))

    def allows(self, layer: Layer, choices: Choices) -> NDArray[np.bool_]:
        fixed, forbidden = self.of(layer)
        allowed = np.ones(len(choices), dtype=bool)
        if not fixed and not forbidden:
            return allowed
        degrees = {dim: choices.degrees(dim) for dim in Dim}
        for pin in fixed:
            wanted = dict(pin.degrees)
            for dim in Dim:
                degree = wanted.get(dim, 1)
                allowed &= degrees[dim] > 1 if degree == 0 else degrees[dim] == degree
        for pin in forbidden:
            if not pin.degrees:
                allowed &= choices.axes_of(Dim) > 0
            for dim, degree in pin.degrees:
                allowed &= degrees[dim] == 1 if degree == 0 else degrees[dim] != degree
        return allowed
