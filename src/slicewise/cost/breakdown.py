"""A cost is a breakdown; totals are derived. Fields are the terms of layers (terms.py): `_s` seconds, `_bytes` sent."""

from dataclasses import dataclass, fields

import numpy as np

from slicewise.partition.choices import Floats, Ints
from slicewise.terms import LAYER_TERMS, MOVING

_OTHERS = tuple(term.name for term in LAYER_TERMS if term.name not in ("compute", *MOVING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of one step by term, bytes sent by all devices by term, and bytes that one device holds."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    update_s: float = 0.0
    transfer_s: float = 0.0
    halo_s: float = 0.0
    reduce_s: float = 0.0
    sync_s: float = 0.0
    transfer_bytes: int = 0
    halo_bytes: int = 0
    reduce_bytes: int = 0
    sync_bytes: int = 0
    memory_bytes: int = 0  # kept through the step
    transient_bytes: int = 0  # needed while a layer runs: of several layers, the largest

    @property
    def compute_s(self) -> float:
        return self.forward_s + self.backward_s

    @property
    def communication_s(self) -> float:
        return sum(self.seconds(name) for name in MOVING)

    @property
    def total_s(self) -> float:
        return sum(map(self.seconds, _OTHERS), self.compute_s + self.communication_s)

    @property
    def bytes_moved(self) -> int:
        return sum(self.sent_bytes.values())

    @property
    def sent_bytes(self) -> dict[str, int]:
        """By term."""
        return {name: getattr(self, f"{name}_bytes") for name in MOVING}

    @property
    def peak_memory_bytes(self) -> int:
        return self.memory_bytes + self.transient_bytes

    def seconds(self, term: str) -> float:
        seconds: float = getattr(self, f"{term}_s")
        return seconds

    def __add__(self, other: "Cost") -> "Cost":
        terms = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Cost(**terms | {"transient_bytes": max(self.transient_bytes, other.transient_bytes)})

    def times(self, count: int) -> "Cost":
        """Of so many layers that cost the same."""
        terms = {f.name: count * getattr(self, f.name) for f in fields(self)}
        return Cost(**terms | {"transient_bytes": self.transient_bytes})

    def __sub__(self, other: "Cost") -> "Cost":
        """What this costs more, term by term."""
        return Cost(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})

    def to_dict(self) -> dict[str, float | int]:
        """The names of the JSON: one number per term, totals included."""
        return {
            "total_s": self.total_s,
            "compute_s": self.compute_s,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "bytes_moved": self.bytes_moved,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSeconds:
    """What depends on a layer's slicing alone, one entry per choice: seconds by term, and bytes of memory."""

    forward_s: Floats
    backward_s: Floats
    update_s: Floats
    halo_s: Floats
    reduce_s: Floats
    sync_s: Floats
    memory_bytes: Ints
    transient_bytes: Ints

    @classmethod
    def of(cls, *, memory_bytes: Ints, transient_bytes: Ints, **seconds: Floats) -> "LayerSeconds":
        """Terms that are not given take no time."""
        none = {item.name: np.zeros(len(memory_bytes)) for item in fields(cls) if item.name.endswith("_s")}
        return cls(**none | seconds, memory_bytes=memory_bytes, transient_bytes=transient_bytes)

    @property
    def total_s(self) -> Floats:
        total: Floats = sum(getattr(self, item.name) for item in fields(self) if item.name.endswith("_s"))
        return total

    def rows(self, kept: Ints) -> "LayerSeconds":
        return LayerSeconds(**{item.name: getattr(self, item.name)[kept] for item in fields(self)})

    def cost(self, row: int = 0) -> Cost:
        """Of one choice, bytes that are sent aside."""
        numbers = {item.name: getattr(self, item.name)[row].item() for item in fields(self)}
        return Cost(**numbers)
