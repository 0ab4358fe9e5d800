"""Which strategy, why, and what limits it: in words, from the projections."""

from slicewise.strategies.limits import Limit, last_paying, limits_of
from slicewise.strategies.projecting import ProjectionTable
from slicewise.strategies.projection import Projection
from slicewise.strategy import STRATEGIES
from slicewise.terms import Group
from slicewise.units import ROUNDING, amount, seconds

NOTABLE = 0.005  # of the iteration: smaller differences are not told


def verdict(table: ProjectionTable) -> str:
    """A paragraph: the best of all rows, against the runner-up at the same device count, and its limit."""
    best = table.best()
    if best is None:
        return f"Nothing is possible. {_obstacles(table)}"
    others = [row for row in table if row.feasible and row.devices == best.devices and row is not best]
    runner_up = min(others, key=lambda row: row.iteration_s, default=None)
    return " ".join(
        [_choice(best), *([_against(best, runner_up)] if runner_up else [_alone(table, best)]), _limited(table, best)]
    )


def _choice(best: Projection) -> str:
    assert best.terms is not None
    split = f" ({best.terms.split})" if best.terms.split else ""
    return (
        f"Use {best.strategy}{split} on {best.devices} {'device' if best.devices == 1 else 'devices'}: "
        f"{best.samples_per_s:,.0f} samples/s, {seconds(best.iteration_s)} an iteration of {best.batch} "
        f"({seconds(best.low_s)} to {seconds(best.high_s)}), {best.efficiency:.0%} of what as many single devices "
        f"would do, and {amount(best.terms.memory_bytes, 'B')} on each."
    )


def _against(best: Projection, other: Projection) -> str:
    """Term by term: where the runner-up loses, and where it would have won."""
    assert best.terms is not None
    assert other.terms is not None
    more = {group.told: other.terms.seconds(group) - best.terms.seconds(group) for group in Group}
    longer = other.iteration_s / best.iteration_s - 1
    if longer < -ROUNDING:
        return f"{other.strategy}, priced by another engine, is expected to take {seconds(other.iteration_s)}."
    if longer < ROUNDING:
        return f"{other.strategy} would take as long."
    counts = sorted(
        (what for what in more if abs(more[what]) > NOTABLE * best.iteration_s), key=lambda what: -abs(more[what])
    )
    spends = [f"{seconds(more[what])} more on {what}" for what in counts if more[what] > 0]
    saves = [f"{seconds(-more[what])} on {what}" for what in counts if more[what] < 0]
    times = f"{longer:.1%} longer" if longer < 1 else f"{longer + 1:.1f}x as long"
    told = f"Next comes {other.strategy} with {seconds(other.iteration_s)}, {times}"
    if spends:
        told += f": it spends {' and '.join(spends)}"
    if saves:
        told += f", and saves {' and '.join(saves)}"
    return told + ("; the ranges overlap, so measure both." if best.high_s > other.low_s else ".")


def _alone(table: ProjectionTable, best: Projection) -> str:
    asked = [row for row in table if row.devices == best.devices and row.strategy != best.strategy]
    return (
        f"Nothing else is possible there: {'; '.join(f'{row.strategy}: {row.reason}' for row in asked)}."
        if asked
        else ""
    )


def _limited(table: ProjectionTable, best: Projection) -> str:
    found = [limit for limit in limits_of(table.oracle, best) if limit.cost_s]
    largest: Limit | None = max(found, key=lambda limit: limit.cost_s or 0.0, default=None)
    told = (
        f"What limits it is {largest.name}: {seconds(largest.cost_s or 0.0)} of every iteration "
        f"({(largest.cost_s or 0.0) / best.iteration_s:.0%})."
        if largest
        else "Nothing limits it but the device's own speed."
    )
    stop = last_paying(table.oracle, best.strategy)
    told = f"{told} {stop.told}" if stop else told
    facts = STRATEGIES.get(best.strategy)
    if facts and facts.thinned and table.oracle.engine.thins_freely:
        told += " The closed form lets compute fall with the shard, which thin shards do not reach: see "
        told += '`engine="slicewise"`.'
    return told


def _obstacles(table: ProjectionTable) -> str:
    return "; ".join(f"{row.strategy} on {row.devices}: {row.reason}" for row in table) + "."
