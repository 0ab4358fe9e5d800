"""The plan whose simulated step is shortest, from the optimum of the sum.

shortlist      each layer's promising slicings, and their tables         search/shortlist.py
reweighted     optima of these with less gradient exchange               search/reweighting.py
rescored       the fastest of all known plans, with parts of the others  search/rescoring.py
Descent        moves of a layer or a stretch, while that helps           search/descent.py
simplified     fewer changes of slicing, where that costs next to nothing    search/simplifying.py
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.partition.layout import Slicing
from slicewise.search.candidates import Candidates
from slicewise.search.certificate import OPTIMUM
from slicewise.search.descent import Descent
from slicewise.search.pins import Pins
from slicewise.search.rescoring import rescored
from slicewise.search.reweighting import reweighted, simulated_bound
from slicewise.search.shortlist import Rows, shortlist
from slicewise.search.simplifying import changes, simplified
from slicewise.search.solver import Settings
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class BestStep:
    slicings: Mapping[str, Slicing]
    simulated_s: float
    lower_s: float  # no plan of the pool simulates below
    origin: str  # which plan it is, and what was done to it
    candidates: int  # plans that were simulated whole before the descent
    optimum_s: float  # of the additive optimum, simulated
    fastest_s: float  # before it was simplified
    changes: int  # of slicing, along edges
    fastest_changes: int


def best_step(
    pool: Candidates,
    optimum: Mapping[str, Slicing],
    baselines: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings,
    pins: Pins,
    memory_limit_bytes: float,
    simplify: float,
    patience_s: float,
) -> BestStep:
    """Never slower, simulated, than the optimum and than any baseline that is allowed."""
    model = pool.model
    known = {**baselines, OPTIMUM: optimum}
    rows = {name: found for name, plan in known.items() if (found := pool.rows(plan)) is not None}
    settings.progress("simulating the best plans and the baselines")
    listed = shortlist(pool, list(rows.values()))
    solved = reweighted(listed, settings)
    others = {**baselines, **{name: listed.pool.slicings(found) for name, found in solved.items()}}
    many = ManyPlans(model)
    again = rescored(model, optimum, others, pins=pins, memory_limit_bytes=memory_limit_bytes)
    descent = Descent(listed, many, memory_limit_bytes)
    start = listed.pool.rows(again.slicings)
    assert start is not None, "parts of plans on the list are on the list"
    plan, fastest_s = descent.descend(start, settings.deadline_s)
    origin = again.origin if fastest_s >= again.simulated_s * (1 - ROUNDING) else f"{again.origin}, improved by parts"
    baselines_s = [
        seconds
        for other, seconds in zip(listed.plans, descent.simulated_s(listed.plans), strict=True)
        if descent.fits(other)
    ]
    fewest = plan
    if simplify:
        fewest = simplified(descent, plan, listed.plans, min(fastest_s * (1 + simplify), *baselines_s))
        origin = origin if fewest == plan else _named(fewest, dict(zip(rows, listed.plans, strict=True)), origin)
    return BestStep(
        slicings=listed.pool.slicings(fewest),
        simulated_s=descent.simulated_s([fewest])[0],
        lower_s=simulated_bound(pool, list(rows.values()), settings, patience_s),
        origin=origin,
        candidates=again.candidates,
        optimum_s=again.optimum_s,
        fastest_s=fastest_s,
        changes=changes(descent, fewest),
        fastest_changes=changes(descent, plan),
    )


def _named(plan: list[int], known: Mapping[str, Rows], origin: str) -> str:
    same = [name for name, rows in known.items() if list(rows) == plan]
    return f"{same[0]}, as simple as any" if same else f"{origin}, made simpler"
