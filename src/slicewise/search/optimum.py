"""From a cost model to the best slicing of every layer, with a certificate.

candidates     what every layer may be, and costs by itself     search/candidates.py
check_fits     refuse a limit that no plan fits                 search/memory.py
solve          the fastest plan of all                          search/solver.py
fastest_that_fits    only where that one needs too much         search/priced.py
certify        what is proven of it                             search/certificate.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.certificate import Certificate, certify
from slicewise.search.memory import affordable, check_fits
from slicewise.search.pins import Pins
from slicewise.search.priced import fastest_that_fits, smallest
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings, solve
from slicewise.units import amount


def best_slicings(
    model: CostModel,
    space: Space,
    known: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    pins: Pins = Pins(),  # noqa: B008 (frozen)
    memory_limit_bytes: float = float("inf"),
    objective: str = "time",
) -> tuple[dict[str, Slicing], Certificate]:
    """The plan with the smallest additive cost in `space`, widened by the slicings of the `known` plans."""
    pool = candidates(model, space, known, pins)
    return best_of(
        pool,
        space,
        known,
        settings=settings,
        pins=pins,
        memory_limit_bytes=memory_limit_bytes,
        objective=objective,
    )


def best_of(
    pool: Candidates,
    space: Space,
    known: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings,
    pins: Pins,
    memory_limit_bytes: float,
    objective: str = "time",
) -> tuple[dict[str, Slicing], Certificate]:
    """The same of a pool that is priced already."""
    effort = Effort()
    plans = [rows for plan in known.values() if (rows := pool.rows(plan)) is not None]
    if objective == "memory":
        check_fits(pool, memory_limit_bytes)
        solution = smallest(pool, settings, effort)
    else:
        solution = fastest(pool, memory_limit_bytes, plans, settings, effort)
    described = f"{space}{'; and the slicings of ' + ', '.join(known) if known else ''}"
    limit = (f"at most {amount(memory_limit_bytes, 'B')} per device",) if memory_limit_bytes < float("inf") else ()
    return pool.slicings(solution.choice), certify(
        pool,
        solution,
        effort,
        space=described,
        constraints=pins.spelled + limit,
        memory_limit_bytes=memory_limit_bytes if limit else None,
        objective="additive_s" if objective == "time" else "memory, then additive_s",
    )


def fastest(
    pool: Candidates, limit_bytes: float, plans: Sequence[Sequence[int]], settings: Settings, effort: Effort
) -> Solution:
    """The fastest plan whose peak fits."""
    if limit_bytes == float("inf"):
        return solve(pool.model, pool.choices, pool.vectors, plans, settings, effort)
    check_fits(pool, limit_bytes)
    kept = affordable(pool, limit_bytes)
    places = [np.searchsorted(keep, rows) for keep, rows in zip(kept, zip(*plans, strict=True), strict=False)]
    fitting = [
        [int(place[number]) for place in places]
        for number, plan in enumerate(plans)
        if pool.memory(plan)[1] <= limit_bytes
    ]
    held = pool.rows_kept(kept)
    found = solve(held.model, held.choices, held.vectors, fitting, settings, effort)
    if held.memory(found.choice)[1] > limit_bytes:
        found = fastest_that_fits(held, limit_bytes, found, fitting, settings, effort)
    return replace(found, choice=tuple(int(keep[a]) for keep, a in zip(kept, found.choice, strict=True)))
