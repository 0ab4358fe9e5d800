"""One row of the oracle's table, and how sure it is."""

from dataclasses import dataclass
from math import ceil, erf, inf, log, sqrt
from typing import Any

from slicewise.cluster.ranges import QUANTILE
from slicewise.cost.prediction import Prediction
from slicewise.cost.uncertainty import Doubt
from slicewise.strategies.setting import Terms
from slicewise.terms import MOVING_GROUPS
from slicewise.units import amount

CERTAIN = Doubt()


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A strategy at a device count. Where it cannot be at all, only the reason is known."""

    strategy: str
    devices: int
    batch: int
    terms: Terms | None
    reason: str | None = None
    samples: int | None = None  # of an epoch
    serial_samples_per_s: float = 0.0
    doubt: Doubt = CERTAIN
    origin: str = ""  # of the machine's figures
    best: bool = False

    @property
    def feasible(self) -> bool:
        return self.reason is None

    @property
    def iteration_s(self) -> float:
        return self.terms.iteration_s if self.terms else float("inf")

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.iteration_s

    @property
    def low_s(self) -> float:
        return self._range["low_s"]

    @property
    def high_s(self) -> float:
        return self._range["high_s"]

    @property
    def _range(self) -> dict[str, float]:
        terms = self.terms
        if terms is None:
            return {"low_s": inf, "high_s": inf}
        return self.doubt.range_of(terms.compute_s, terms.communication_s)

    @property
    def sigma(self) -> float:
        """Standard deviation of ln(measured / iteration_s)."""
        return self.doubt.sigma(self.terms.compute_s, self.terms.communication_s) if self.terms else inf

    def chance(self, limit_s: float) -> float:
        """That an iteration takes no longer."""
        if self.terms is None:
            return 0.0
        low, high = log(self.low_s / self.iteration_s), log(self.high_s / self.iteration_s)
        off = log(limit_s / self.iteration_s)
        side = (high if off > 0 else -low) / QUANTILE
        return 0.5 * (1 + erf(off / side / sqrt(2))) if side else float(off >= 0)

    @property
    def prediction(self) -> Prediction:
        """The step as every plan has it. Closed forms count no bytes; norm statistics are part of their transfers."""
        terms = self.terms
        if terms is None or terms.plan is not None:
            return (terms and terms.plan) or Prediction()
        return Prediction(
            iteration_s=self.iteration_s,
            low_s=self.low_s,
            high_s=self.high_s,
            additive_s=self.iteration_s,
            simulated_s=self.iteration_s,
            seconds={
                "compute": terms.compute_s - terms.update_s,
                "transfer": terms.layerwise_s + terms.p2p_s,
                "halo": terms.halo_s,
                "sync": terms.gradient_s,
                "exposed_sync": terms.gradient_s,
                "update": terms.update_s,
            },
            samples_per_s=self.samples_per_s,
            peak_memory_bytes=terms.memory_bytes,
            origin=self.origin,
        )

    @property
    def efficiency(self) -> float:
        """Throughput over that of as many single devices."""
        return self.samples_per_s / (self.devices * self.serial_samples_per_s)

    @property
    def epoch_s(self) -> float | None:
        """An iteration for every batch, the last smaller one included."""
        return ceil(self.samples / self.batch) * self.iteration_s if self.samples and self.terms else None

    def to_dict(self) -> dict[str, Any]:
        """The names of the JSON."""
        terms = self.terms
        return {
            "strategy": self.strategy,
            "devices": self.devices,
            "batch": self.batch,
            "split": terms.split if terms else None,
            "compute_s": terms.compute_s if terms else None,
            "update_s": terms.update_s if terms else None,
            "communication_s": terms.communication_s if terms else None,
            "communication": {f"{group}_s": terms.seconds(group) for group in MOVING_GROUPS} if terms else None,
            "iteration_s": self.iteration_s if terms else None,
            "low_s": self.low_s if terms else None,
            "high_s": self.high_s if terms else None,
            "epoch_s": self.epoch_s,
            "samples_per_s": self.samples_per_s if terms else None,
            "efficiency": self.efficiency if terms else None,
            "memory_bytes": round(terms.memory_bytes) if terms else None,
            "feasible": self.feasible,
            "reason": self.reason,
            "best": self.best,
        }


def memory_reason(terms: Terms, limit: float) -> str | None:
    if terms.memory_bytes <= limit:
        return None
    return f"memory: needs {amount(terms.memory_bytes, 'B')} per device, the limit is {amount(limit, 'B')}"
