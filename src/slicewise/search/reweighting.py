"""Plans that may be fastest when simulated: optima of the same tables with other weights.

The sum that the search minimises charges all gradient exchange. The step that is run hides most of it behind backward, how
much depends on the plan. So the tables are solved again with that term weighted less, and with a small price on every
change of slicing. Each solve starts from the plans of those before it.

The optimum without any gradient exchange is also a bound: no plan simulates below it, for what is not hidden only adds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from slicewise.search.candidates import Candidates
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings, solve

Choice = tuple[int, ...]
_WEIGHTS = (0.5, 0.25, 0.1, 0.0)
_CHANGE = 2e-4  # of a step, for every change of slicing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reweighted:
    choice: Choice
    origin: str
    lower_s: float | None = None  # of every plan's simulated step, where this solve proves one


def reweighted(
    pool: Candidates, optimum: Solution, plans: Sequence[Sequence[int]], settings: Settings
) -> Iterator[Reweighted]:
    """The optimum itself comes first; `plans` are known beforehand."""
    yield Reweighted(choice=optimum.choice, origin="the optimum of the sum")
    known = [*plans, optimum.choice]
    for weight in _WEIGHTS:
        vectors = [timed.total_s - (1 - weight) * timed.sync_s for timed in pool.seconds]
        found = solve(pool.model, pool.choices, vectors, known, settings, Effort())
        known.append(found.choice)
        origin = f"the optimum with gradient exchange weighted {weight:g}"
        yield Reweighted(choice=found.choice, origin=origin, lower_s=found.lower if weight == 0 else None)
    priced = replace(settings, change_s=_CHANGE * optimum.cost)
    for weight in (1.0, 0.5):
        vectors = [timed.total_s - (1 - weight) * timed.sync_s for timed in pool.seconds]
        found = solve(pool.model, pool.choices, vectors, known, priced, Effort())
        known.append(found.choice)
        yield Reweighted(choice=found.choice, origin=f"an optimum with few changes of slicing, weighted {weight:g}")
