"""How well predictions did: accuracies of bars, of terms, of orders.

accuracy  max(0, 1 - |predicted - measured| / measured)
regret    measured step of the plan that was predicted to be fastest, over the fastest measured, minus 1
spearman  correlation of the two orders; ties share their ranks
steady    accuracy, had the machine been as quick as when it was calibrated: what has drifted is no model's fault
null      every strategy takes what the other strategies of its network took, on average
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from slicewise.terms import LAYER_TERMS, MOVING

_NOTABLE = 0.02  # of a step: communication below says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One plan, run: what a cost model said of it."""

    model: str
    strategy: str
    ranks: int
    cost_model: str
    predicted_s: float
    measured_s: float
    spread: float  # of the measured runs: largest minus smallest, over the median
    batch: int
    terms: Mapping[str, tuple[float, float]]  # predicted and measured seconds that a step spends on it
    memory_bytes: tuple[float, float] = (0.0, 0.0)  # predicted, measured
    drift: float | None = None  # what the same work took in the runs, over what it took when the machine was calibrated

    @property
    def accuracy(self) -> float:
        return accuracy(self.predicted_s, self.measured_s)

    @property
    def steady_accuracy(self) -> float:
        """With what a device does by itself predicted for the machine as it was in the runs."""
        own_s, _ = self.summed(["compute", "update"])
        return accuracy(self.predicted_s + ((self.drift or 1.0) - 1) * own_s, self.measured_s)

    @property
    def doubtful(self) -> bool:
        """Its runs differ by more than the prediction is off."""
        return self.spread > abs(self.predicted_s - self.measured_s) / self.measured_s

    def summed(self, names: Iterable[str]) -> tuple[float, float]:
        pairs = [self.terms[name] for name in names if name in self.terms]
        return sum(one for one, _ in pairs), sum(other for _, other in pairs)

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        told["terms"] = {name: {"predicted_s": p, "measured_s": m} for name, (p, m) in self.terms.items()}
        told["memory_bytes"] = {"predicted": self.memory_bytes[0], "measured": self.memory_bytes[1]}
        return {
            **told,
            "accuracy": self.accuracy,
            "steady_accuracy": self.steady_accuracy,
            "doubtful": self.doubtful,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Near-optimal plans of one network, as predicted and as measured."""

    model: str
    ranks: int
    cost_model: str
    predicted_s: tuple[float, ...]
    measured_s: tuple[float, ...]

    @property
    def spearman(self) -> float | None:
        return spearman(self.predicted_s, self.measured_s)

    @property
    def regret(self) -> float:
        return regret(self.predicted_s, self.measured_s)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "spearman": self.spearman, "regret": self.regret}


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What `slicewise validate` found."""

    bars: tuple[Bar, ...]
    rankings: tuple[Ranking, ...] = ()
    skipped: tuple[Mapping[str, Any], ...] = field(default=())  # what could not be planned, priced or run, and why
    input: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of networks whose samples are not their own

    def to_dict(self) -> dict[str, Any]:
        correlations = [value for ranking in self.rankings if (value := ranking.spearman) is not None]
        return {
            "schema_version": 1,
            "bars": [bar.to_dict() for bar in self.bars],
            "accuracy": {
                **scores(self.bars),
                "by_cost_model": _grouped(self.bars, lambda bar: bar.cost_model, scores),
            },
            "null_accuracy": null_accuracy(self.bars),
            "spearman": _mean(correlations),
            "regret": _mean([ranking.regret for ranking in self.rankings]),
            "memory_accuracy": _mean([accuracy(*bar.memory_bytes) for bar in self.bars if bar.memory_bytes[1]]),
            "most_wrong": most_wrong(self.bars),
            "repeatability": _mean([bar.spread for bar in self.bars]),
            "drift": _mean([bar.drift for bar in self.bars if bar.drift is not None]),
            "rankings": [ranking.to_dict() for ranking in self.rankings],
            "skipped": [dict(item) for item in self.skipped],
            "input": {name: list(shape) for name, shape in self.input.items()},
        }


def accuracy(predicted: float, measured: float) -> float:
    return max(0.0, 1 - abs(predicted - measured) / measured)


def scores(bars: Sequence[Bar]) -> dict[str, Any]:
    """Over all bars, and parts of them."""
    moving = [(bar, bar.summed(MOVING)) for bar in bars]
    return {
        "all": _mean([bar.accuracy for bar in bars]),
        "steady": _mean([bar.steady_accuracy for bar in bars]),
        "by_strategy": _grouped(bars, lambda bar: bar.strategy, _all),
        "by_model": _grouped(bars, lambda bar: bar.model, _all),
        "compute": _mean([accuracy(*pair) for bar in bars if (pair := bar.summed(["compute"]))[1] > 0]),
        "communication": _mean([accuracy(*pair) for bar, pair in moving if pair[1] > _NOTABLE * bar.measured_s]),
    }


def null_accuracy(bars: Sequence[Bar]) -> float | None:
    """Of who knows the machine and the network, but no strategy; None where a network has one strategy alone."""
    measured = {(bar.model, bar.ranks, bar.strategy): bar.measured_s for bar in bars}
    found = []
    for (model, ranks, strategy), seconds in measured.items():
        others = [s for (m, r, other), s in measured.items() if (m, r) == (model, ranks) and other != strategy]
        if others:
            found.append(accuracy(fmean(others), seconds))
    return _mean(found)


def most_wrong(bars: Sequence[Bar]) -> dict[str, Any] | None:
    """The term whose seconds are off most, over all bars."""
    off: dict[str, float] = {}
    for bar in bars:
        for term in LAYER_TERMS:
            if term.name in bar.terms:
                predicted, measured = bar.terms[term.name]
                off[term.name] = off.get(term.name, 0.0) + abs(predicted - measured)
    if not off:
        return None
    worst = max(off, key=lambda name: off[name])
    predicted, measured = (sum(bar.terms[worst][side] for bar in bars if worst in bar.terms) for side in (0, 1))
    return {"term": worst, "predicted_s": predicted, "measured_s": measured, "off_s": off[worst]}


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """None where one of the orders is no order: all alike."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def regret(predicted: Sequence[float], measured: Sequence[float]) -> float:
    chosen = int(np.argmin(predicted))
    return measured[chosen] / min(measured) - 1


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def _all(bars: Sequence[Bar]) -> float | None:
    return _mean([bar.accuracy for bar in bars])


def _grouped(bars: Sequence[Bar], by: Callable[[Bar], Hashable], of: Callable[[Sequence[Bar]], Any]) -> dict[Any, Any]:
    names = dict.fromkeys(by(bar) for bar in bars)
    return {name: of([bar for bar in bars if by(bar) == name]) for name in names}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
