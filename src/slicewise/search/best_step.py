"""The plan whose simulated step is shortest, from the optimum of the sum.

shortlist      each layer's promising slicings, and their tables             search/shortlist.py
reweighted     optima of these with less gradient exchange                   search/reweighting.py
Descent        from the fastest of all known plans, moves while that helps   search/descent.py
simplified     fewer changes of slicing, where that costs next to nothing    search/simplifying.py
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.partition.layout import Slicing
from slicewise.search.candidates import Candidates
from slicewise.search.certificate import OPTIMUM
from slicewise.search.descent import Descent
from slicewise.search.reweighting import reweighted, simulated_bound
from slicewise.search.shortlist import MOST, Rows, shortlist
from slicewise.search.simplifying import along_edges, simplified
from slicewise.search.solver import Settings
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class BestStep:
    slicings: Mapping[str, Slicing]
    simulated_s: float
    lower_s: float  # no plan of the pool simulates below
    origin: str  # which plan it is, and what was done to it
    candidates: int  # plans to begin with
    optimum_s: float  # of the additive optimum, simulated
    fastest_s: float  # before it was made simpler
    changes: int  # edges between layers that are sliced differently
    fastest_changes: int


def best_step(
    pool: Candidates,
    optimum: Mapping[str, Slicing],
    baselines: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings,
    memory_limit_bytes: float,
    simplify: float,
    patience_s: float,
) -> BestStep:
    """Never slower, simulated, than the optimum and than any baseline that is in the pool and fits."""
    graph, many = pool.model.graph, ManyPlans(pool.model)
    found = {name: rows for name, plan in baselines.items() if (rows := pool.rows(plan)) is not None}
    known: dict[str, Rows] = {name: rows for name, rows in found.items() if pool.memory(rows)[1] <= memory_limit_bytes}
    first = pool.rows(optimum)
    assert first is not None, "the optimum is of the pool"
    known = {OPTIMUM: first, **known}
    hurried = time.perf_counter() > settings.deadline_s
    settings.progress("simulating the best plans and the baselines")
    listed = shortlist(pool, list(known.values()), most=1 if hurried else MOST)
    descent = Descent(listed, many, memory_limit_bytes)
    plans = dict(zip(known, listed.plans, strict=True))
    plans |= {name: rows for name, rows in reweighted(listed, settings).items() if descent.fits(rows)}
    seconds = dict(zip(plans, descent.simulated_s(list(plans.values())), strict=True))
    best = min(plans, key=lambda name: seconds[name] * (1 if name == OPTIMUM else 1 + ROUNDING))
    plan, fastest_s = descent.descend(plans[best], list(plans.values()), settings.deadline_s)
    origin = best if fastest_s >= seconds[best] * (1 - ROUNDING) else f"{best}, improved by parts"
    limit_s = min(fastest_s * (1 + simplify), *(seconds[name] for name in known))
    simple = simplified(descent, plan, list(plans.values()), limit_s) if simplify else plan
    if simple != plan:
        same = [name for name, rows in plans.items() if list(rows) == simple]
        origin = f"{same[0]}, as simple as any" if same else f"{origin}, made simpler"
    slicings = listed.pool.slicings(simple)
    starts = [first, *([pool.rows(listed.pool.slicings(plan)) or first])]
    return BestStep(
        slicings=slicings,
        simulated_s=descent.simulated_s([simple])[0],
        lower_s=simulated_bound(pool, starts, settings, patience_s),
        origin=origin,
        candidates=len(plans),
        optimum_s=seconds[OPTIMUM],
        fastest_s=fastest_s,
        changes=along_edges(graph, slicings),
        fastest_changes=along_edges(graph, listed.pool.slicings(plan)),
    )
