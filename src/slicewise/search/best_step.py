"""The plan whose simulated step is shortest, from the optimum of the sum and a bound on every step.

shortlist          each layer's promising slicings, and their tables                     search/shortlist.py
reweighted         optima of these with less gradient exchange                           search/reweighting.py
Descent            from the fastest of all known plans, moves while that helps           search/descent.py
simplified         fewer changes of slicing, where that costs next to nothing            search/simplifying.py
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.partition.layout import Slicing
from slicewise.search.candidates import Candidates
from slicewise.search.certificate import OPTIMUM
from slicewise.search.deadline import TimeIsUp, check
from slicewise.search.descent import Descent
from slicewise.search.reweighting import Bound, reweighted
from slicewise.search.shortlist import Rows, shortlist
from slicewise.search.simplifying import along_edges, simplified
from slicewise.search.solver import Settings
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING

_SETTLED = 0.2  # of the tolerance: a step that is proven to be this close to the shortest is not improved


@dataclass(frozen=True, slots=True, kw_only=True)
class BestStep:
    slicings: Mapping[str, Slicing]
    simulated_s: float
    origin: str  # which plan it is, and what was done to it
    candidates: int  # plans to begin with
    optimum_s: float  # of the additive optimum, simulated
    fastest_s: float  # before it was made simpler
    changes: int  # edges between layers that are sliced differently
    fastest_changes: int
    bucket_bytes: int  # of gradients that travel together: the size that this plan wants
    exposed_s: float  # of gradient exchange: what the step waits for
    priced: ManyPlans


def best_step(
    pool: Candidates,
    optimum: Mapping[str, Slicing],
    baselines: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings,
    memory_limit_bytes: float,
    simplify: float,
    bound: Bound,
    before: BestStep | None = None,
) -> BestStep:
    """Never slower, simulated, than the optimum and than any baseline that is in the pool and fits.

    `before`: with another size of buckets; its prices serve, and its plan is one of those to begin with.
    """
    graph = pool.model.graph
    many = before.priced.with_buckets(pool.model) if before else ManyPlans(pool.model)
    found = {name: pool.rows(plan) for name, plan in baselines.items()}
    known: dict[str, Rows] = {
        name: given for name, given in found.items() if given and pool.memory(given)[1] <= memory_limit_bytes
    }
    first = pool.rows(optimum)
    assert first is not None, "the optimum is of the pool"
    known = {OPTIMUM: first, **known}
    settings.progress("simulating the best plans and the baselines")
    known_s = many.simulated_s([pool.slicings(rows) for rows in known.values()])
    improved = before and pool.rows(before.slicings)
    rows = [*known.values(), *([improved] if improved else []), bound.plan]
    try:
        check(settings.deadline_s)
        listed = shortlist(pool, rows, bound.of_choice, deadline_s=settings.deadline_s)
        listed.price()
    except TimeIsUp:  # nothing but the plans in hand
        listed = shortlist(pool, rows, bound.of_choice, most=0)
    descent = Descent(listed, many, memory_limit_bytes)
    plans = dict(zip(known, listed.plans, strict=False))
    seconds = dict(zip(known, known_s, strict=True))
    if min(known_s) > bound.lower_s * (1 + _SETTLED * simplify):
        more = {name: rows for name, rows in reweighted(listed, settings).items() if descent.fits(rows)}
        plans |= more
        seconds |= dict(zip(more, descent.simulated_s(list(more.values())), strict=True)) if more else {}
    starts = [min(plans, key=lambda name: seconds[name] * (1 if name == OPTIMUM else 1 + ROUNDING))]
    if (
        before and improved
    ):  # it is near its own best plan, which need not be the best: one more start, not the only one
        starts.append(f"the best with buckets of {before.priced.model.training.bucket_bytes >> 20} MiB")
        plans[starts[-1]] = listed.plans[len(known)]
        seconds[starts[-1]] = descent.simulated_s([plans[starts[-1]]])[0]
    reached = {name: (list(plans[name]), seconds[name]) for name in starts}
    if min(seconds[name] for name in starts) > bound.lower_s * (1 + _SETTLED * simplify):
        for name in starts:
            others = [rows for other, rows in plans.items() if other not in starts[1:]]
            reached[name] = descent.descend(plans[name], others, settings.deadline_s)
    best = min(starts, key=lambda name: reached[name][1])
    plan, fastest_s = reached[best]
    origin = best if fastest_s >= seconds[best] * (1 - ROUNDING) else f"{best}, improved by parts"
    limit_s = min(fastest_s * (1 + simplify), *(seconds[name] for name in known))
    simple = simplified(descent, plan, list(plans.values()), limit_s, settings.deadline_s) if simplify else plan
    if simple != plan:
        same = [name for name, rows in plans.items() if list(rows) == simple]
        origin = f"{same[0]}, as simple as any" if same else f"{origin}, made simpler"
    slicings = listed.pool.slicings(simple)
    return BestStep(
        slicings=slicings,
        simulated_s=descent.simulated_s([simple])[0],
        origin=origin,
        candidates=len(plans),
        optimum_s=seconds[OPTIMUM],
        fastest_s=fastest_s,
        changes=along_edges(graph, slicings),
        fastest_changes=along_edges(graph, listed.pool.slicings(plan)),
        bucket_bytes=descent.fastest_bucket(simple),
        exposed_s=descent.exposed_s(simple),
        priced=many,
    )
