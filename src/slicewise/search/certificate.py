"""What a search has proven, and about which plan."""

import sys
from dataclasses import asdict, dataclass
from math import log10, prod
from typing import Any

from slicewise.search.candidates import Candidates
from slicewise.search.elimination import irreducible_nodes
from slicewise.search.solution import Solution
from slicewise.search.solver import Effort
from slicewise.units import ROUNDING

OPTIMUM = "the additive optimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was searched, how, and what is proven: of the plan with the smallest additive cost, under the request.

    `returned` says whether that optimum is the plan you get. Another one is where it is faster with overlap simulated
    (search/best_step.py); of that one is proven how far its simulated step may be from the shortest.
    """

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
    returned: str = OPTIMUM
    simulated_lower_s: float | None = None  # no plan of the space simulates below; None where that was not looked into
    simulated_gap: float | None = None  # of the plan that is returned, above that bound

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


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
