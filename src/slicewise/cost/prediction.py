"""What a step is predicted to take: one value for sliced plans, pipelines, the oracle's rows, diagnosis and tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from slicewise.terms import LAYER_TERMS, MOVING, TERMS

FIGURES_S = ("iteration_s", "low_s", "high_s", "additive_s", "simulated_s")
FIGURES = ("samples_per_s", "bytes_moved", "peak_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(Mapping[str, Any]):
    """One training step. As a mapping it has the names of the JSON.

    A figure that nobody knows (old files lack some, closed forms count no bytes) is infinite, and not in the mapping.

    >>> prediction = sw.plan("lenet5", "p100-4x4", batch=64, strategy="data").predicted
    >>> prediction.iteration_s == prediction["iteration_s"]
    True
    """

    iteration_s: float = inf  # the one to believe
    low_s: float = inf
    high_s: float = inf
    additive_s: float = inf  # the sum of the terms that layers have: what the search minimises
    simulated_s: float = inf  # with overlap
    seconds: Mapping[str, float] = field(default_factory=dict)  # by term (terms.py), hidden or not
    sent_bytes: Mapping[str, int] = field(default_factory=dict)  # by term, of all devices
    samples_per_s: float = inf
    bytes_moved: float = inf  # all of `sent_bytes`
    peak_memory_bytes: float = inf  # of the device that holds most
    origin: str = ""  # of the machine's figures: preset, fitted, ...

    @property
    def waited(self) -> dict[str, float]:
        """What a step spends on each term that layers have: of `sync` what backward does not hide."""
        return {term.name: self.seconds.get(term.waited, 0.0) for term in LAYER_TERMS}

    @property
    def communication_s(self) -> float:
        """What a step waits for data that moves."""
        waited = self.waited
        return sum(waited[name] for name in MOVING)

    def to_dict(self) -> dict[str, Any]:
        """The names of the JSON."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIGURES_S}
        fields |= {f"{term.name}_s": self.seconds[term.name] for term in TERMS if term.name in self.seconds}
        fields |= {name: getattr(self, name) for name in FIGURES}
        fields |= {f"{name}_bytes": self.sent_bytes[name] for name in MOVING if name in self.sent_bytes}
        known = {name: value for name, value in fields.items() if isfinite(value)}
        return known | ({"origin": self.origin} if self.origin else {})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Prediction":
        """Of any version's file: what is not there, or is no number, is not known."""
        known = {name: value for name, value in fields.items() if _is_number(value)}
        return cls(
            **{name: known[name] for name in (*FIGURES_S, *FIGURES) if name in known},
            seconds={term.name: known[f"{term.name}_s"] for term in TERMS if f"{term.name}_s" in known},
            sent_bytes={name: known[f"{name}_bytes"] for name in MOVING if f"{name}_bytes" in known},
            origin=origin if isinstance(origin := fields.get("origin"), str) else "",
        )

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
