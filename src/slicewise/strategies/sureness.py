"""How sure a projection is, and what would make it surer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import TYPE_CHECKING, Any

from slicewise.cluster.cluster import Measured
from slicewise.cluster.ranges import QUANTILE, fitted_ranges
from slicewise.cost.uncertainty import Doubt, doubt_of
from slicewise.strategies.projection import Projection

if TYPE_CHECKING:
    from slicewise.strategies.projecting import Oracle, ProjectionTable

LEAST_GAIN = 0.1  # of the range's width, on a logarithmic scale: less is not worth a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One measurement, and how far the best row's range would reach after it."""

    measure: str
    now: float  # high / low, as a factor each way
    then: float

    @property
    def told(self) -> str:
        return f"{self.measure}: the range would be {self.then:.2f}x each way, now it is {self.now:.2f}x."

    def to_dict(self) -> dict[str, Any]:
        return {"measure": self.measure, "range_now": self.now, "range_then": self.then}


def next_measurement(oracle: "Oracle", row: Projection) -> Advice | None:
    """What would narrow the range of `row` most; None where nothing would by much."""
    now = width(row)
    found = [(then, what) for what, doubt in _measurements(oracle, row) if (then := width(replace(row, doubt=doubt)))]
    then, what = min(found, default=(now, ""))
    return Advice(measure=what, now=now, then=then) if then < now ** (1 - LEAST_GAIN) else None


def width(row: Projection) -> float:
    """Half of the range, as a factor."""
    return sqrt(row.high_s / row.low_s)


def _measurements(oracle: "Oracle", row: Projection) -> Iterator[tuple[str, Doubt]]:
    """What can be measured, and the doubt that it leaves."""
    known, doubt = fitted_ranges(), row.doubt
    if doubt.other_software != 1:
        yield 'say which software trains (`software="plain"` or `software="tuned"`)', replace(doubt, other_software=1.0)
    if oracle.cluster.measured is None:
        samples = max(1, -(-row.batch // row.devices))
        case = oracle.engine.case(row.strategy, row.devices, row.batch)
        timed = Measured(model=case.model, batch=samples, seconds=row.iteration_s, factor=1.0)
        yield (
            f"time one device at batch {samples} (`measured=({samples}, TIME)`)",
            doubt_of(case, replace(oracle.cluster, measured=timed), lambda: doubt),
        )
    few = min(row.devices // 2, 2 * oracle.cluster.tiers[-1].size)
    if few > 1 and row.terms and row.terms.communication_s:
        yield (
            f"time {row.strategy} on {few} devices (`calibrate_from`)",
            replace(doubt, communication=known.measured),
        )


def range_told(table: "ProjectionTable") -> dict[str, Any]:
    """Of the JSON: the mean margin of all rows, what the best row's range is made of, and in words."""
    rows = [row for row in table if row.terms]
    margin = sum(row.high_s / row.iteration_s - 1 for row in rows) / len(rows) if rows else 0.0
    best = table.best() or (rows[0] if rows else None)
    return {
        "margin": margin,
        "origin": f"{table.oracle.cluster.origin} figures",
        **({"told": range_text(best), **best.doubt.to_dict()} if best else {}),
    }


def range_text(row: Projection) -> str:
    """`90 %, 1.59x each way: network 1.59x, communication 2.68x`."""
    both = f"{row.iteration_s / row.low_s:.2f}x down, {row.high_s / row.iteration_s:.2f}x up"
    even = f"{exp(QUANTILE * row.sigma):.2f}x each way"
    told = f"90 %, {even if row.doubt.other_software == 1 else both}"
    return f"{told}: {row.doubt.told}" if row.doubt.parts else told
