"""Plans that may be fastest when simulated: optima of the same tables with gradient exchange weighted less.

The sum that the search minimises charges all gradient exchange. The step that is run hides most of it behind backward;
how much depends on the plan. And it pays a latency per bucket, not per layer. So the tables are solved again with each
layer's share of a bucket's latency, and with the whole term weighted less. Each solve starts from the plans of those
before it.

The optimum without any gradient exchange is also a bound: no plan simulates below it, for what is not hidden only adds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slicewise.partition.choices import Floats
from slicewise.partition.layout import Slicing
from slicewise.search.candidates import Candidates
from slicewise.search.deadline import over
from slicewise.search.shortlist import Rows, Shortlist
from slicewise.search.solver import Effort, Reach, Settings, solve, solve_tables
from slicewise.simulate.many import ManyPlans

_WEIGHTS = (1.0, 0.0, 0.25, 0.5, 0.1)
_CLOSE = 0.01  # a bound that is this near will do where the tables are large


def reweighted(listed: Shortlist, settings: Settings) -> dict[str, Rows]:
    """Optima among the shortlisted slicings, by what they are the optimum of, most gradient exchange first.

    The sum is linear in the weight: the optimum of two weights is that of every weight between them.
    """
    found: dict[float, Rows] = {}
    for weight in _WEIGHTS:
        if over(settings.deadline_s):
            break
        above = min((other for other in found if other > weight), default=weight)
        below = max((other for other in found if other < weight), default=weight)
        if below < weight < above and found[below] == found[above]:
            found[weight] = found[above]
            continue
        settings.progress(f"solving again with gradient exchange weighted {weight:g}")
        solved = solve_tables(listed.weighted(weight), [*listed.plans, *found.values()], settings.deadline_s)
        found[weight] = solved.choice
    return {
        f"the optimum with gradient exchange weighted {weight:g}": found[weight]
        for weight in sorted(found, reverse=True)
    }


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What the tables without gradient exchange say."""

    lower_s: float  # no plan of the pool simulates below
    of_choice: Sequence[Floats]  # per layer and choice: no plan that uses it simulates below
    plan: Rows  # the best by these tables, or close to it


def simulated_bound(
    pool: Candidates,
    known: Mapping[str, Mapping[str, Slicing]],
    memory_limit_bytes: float,
    settings: Settings,
) -> Bound:
    """As good as the time allows.

    Of interest are plans up to the fastest step in hand: of the `known` ones, and of those that are found on the way.
    """
    settings.progress("bounding the simulated step: the same tables without gradient exchange")
    vectors = [timed.total_s - timed.sync_s for timed in pool.seconds]
    plans = [rows for plan in known.values() if (rows := pool.rows(plan))] or [[0] * len(vectors)]
    if over(settings.deadline_s):
        return Bound(lower_s=sum(float(vector.min()) for vector in vectors), of_choice=vectors, plan=plans[0])
    many = ManyPlans(pool.model)

    def fits(rows: Rows) -> bool:
        return pool.memory(rows)[1] <= memory_limit_bytes

    def step_s(rows: Rows) -> float:
        return many.simulated_s([pool.slicings(rows)])[0] if fits(rows) else float("inf")

    fitting = [rows for rows in plans if fits(rows)] or plans
    reach = Reach(min(many.simulated_s([pool.slicings(rows) for rows in fitting])), step_s)
    effort = Effort()
    close = replace(settings, search="elimination", gap=max(_CLOSE, settings.gap))
    solved = solve(pool.model, pool.choices, vectors, plans, close, effort, reach)
    return Bound(lower_s=solved.lower, of_choice=effort.bounds, plan=solved.choice)
