"""Plans that may be fastest when simulated: optima of the same tables with gradient exchange weighted less.

The sum that the search minimises charges all gradient exchange. The step that is run hides most of it behind backward;
how much depends on the plan. And it pays a latency per bucket, not per layer. So the tables are solved again with each
layer's share of a bucket's latency, and with the whole term weighted less. Each solve starts from the plans of those
before it.

The optimum without any gradient exchange is also a bound: no plan simulates below it, for what is not hidden only adds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Floats
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.pins import Pins
from slicewise.search.solver import Effort, Settings, solve

_WEIGHTS = (1.0, 0.5, 0.25, 0.1, 0.0)
_MOST = 100_000  # slicings of all layers: above that, solving again takes longer than people wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Reweighted:
    plans: Mapping[str, Mapping[str, Slicing]]  # by what they are the optimum of
    simulated_lower_s: float | None  # no plan of the space simulates below; None where that was not looked into


def reweighted(
    model: CostModel,
    space: Space,
    known: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    pins: Pins = Pins(),  # noqa: B008 (frozen)
) -> Reweighted:
    """The same problem as for `best_slicings`, whose optimum may be among the `known` plans."""
    pool = candidates(model, space, known, pins)
    if sum(map(len, pool.choices)) > _MOST:
        return Reweighted(plans={}, simulated_lower_s=None)
    plans = [rows for plan in known.values() if (rows := pool.rows(plan)) is not None]
    found: dict[str, Mapping[str, Slicing]] = {}
    lower_s = None
    amortised = _amortised(model, pool)
    for weight in _WEIGHTS:
        settings.progress(f"solving again with gradient exchange weighted {weight:g}")
        vectors = [
            timed.total_s - timed.sync_s + weight * sync_s
            for timed, sync_s in zip(pool.seconds, amortised, strict=True)
        ]
        solved = solve(model, pool.choices, vectors, plans, replace(settings, search="elimination"), Effort())
        plans.append(list(solved.choice))
        found[f"the optimum with gradient exchange weighted {weight:g}"] = pool.slicings(solved.choice)
        lower_s = solved.lower
    return Reweighted(plans=found, simulated_lower_s=lower_s)


def _amortised(model: CostModel, pool: Candidates) -> list[Floats]:
    """Per layer and choice, gradient exchange with its share of a bucket's latency; equal layers are priced once."""
    priced: dict[int, Floats] = {}
    for layer, rows, timed in zip(model.graph, pool.choices, pool.seconds, strict=True):
        if id(timed) not in priced:
            priced[id(timed)] = model.amortised_sync_s(layer, rows) if layer.weights else timed.sync_s
    return [priced[id(timed)] for timed in pool.seconds]
