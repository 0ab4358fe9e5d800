"""From a cost model to the best slicing of every layer, with a certificate."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log10, prod
from typing import Any

from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.baselines import BASELINES, COMPARED
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.elimination import irreducible_nodes
from slicewise.search.memory import check_fits, fastest, smallest
from slicewise.search.pins import Pins
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort, Settings
from slicewise.units import ROUNDING, amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was searched, how, and what was left of it."""

    objective: str
    space: str
    constraints: tuple[str, ...]
    memory_limit_bytes: float | None
    method: str
    optimal: bool
    gap: float  # of the optimum's cost: no plan in the space can be cheaper by more
    optimum_s: float  # the smallest additive_s found
    layers: int
    configurations: int
    space_size: float  # plans; where that is more than a float holds, the largest float
    space_log10: float
    surviving: int
    surviving_largest: int
    remaining_nodes: int
    tables_s: float
    search_s: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def baseline_slicings(model: CostModel) -> tuple[dict[str, dict[str, Slicing]], dict[str, str]]:
    """The baselines that stand beside every plan, as far as they exist for this network, and why the others do not."""
    found, reasons = {}, {}
    for name in COMPARED:
        try:
            found[name] = BASELINES[name](model)
        except InfeasibleError as error:
            reasons[name] = str(error)
    return found, reasons


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
    effort = Effort()
    pool = candidates(model, space, known, pins)
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


def certify(
    pool: Candidates,
    solution: Solution,
    effort: Effort,
    *,
    space: str,
    constraints: tuple[str, ...],
    memory_limit_bytes: float | None,
    objective: str,
) -> Certificate:
    gap = max(0.0, (solution.cost - solution.lower) / solution.cost) if solution.cost else 0.0
    sizes = [len(rows) for rows in pool.choices]
    graph = pool.model.graph
    return Certificate(
        objective=objective,
        space=space,
        constraints=constraints,
        memory_limit_bytes=memory_limit_bytes,
        method=solution.method,
        optimal=gap <= ROUNDING,
        gap=0.0 if gap <= ROUNDING else gap,
        optimum_s=solution.cost,
        layers=len(graph),
        configurations=sum(sizes),
        space_size=min(prod(map(float, sizes)), sys.float_info.max),
        space_log10=sum(map(log10, sizes)),
        surviving=sum(effort.surviving),
        surviving_largest=max(effort.surviving),
        remaining_nodes=irreducible_nodes(len(graph), [(i, j) for i, j, _ in graph.edges]),
        tables_s=effort.tables_s,
        search_s=effort.search_s,
    )
