"""From a cost model to the best slicing of every layer, with a certificate."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.baselines import BASELINES
from slicewise.search.problem import Problem, cost_edges, cost_layers
from slicewise.search.prune import undominated, within_bound
from slicewise.search.registry import search_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was searched, how, and what was left of it."""

    objective: str
    space: str
    constraints: tuple[str, ...]
    method: str
    optimal: bool
    gap: float
    layers: int
    configurations: int
    space_size: float
    surviving: int
    surviving_largest: int
    remaining_nodes: int
    tables_s: float
    search_s: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def baseline_slicings(model: CostModel) -> tuple[dict[str, dict[str, Slicing]], dict[str, str]]:
    """The baselines that exist for this network, and why the others do not."""
    found, reasons = {}, {}
    for name, build in BASELINES.items():
        try:
            found[name] = build(model)
        except InfeasibleError as error:
            reasons[name] = str(error)
    return found, reasons


def best_slicings(
    model: CostModel, space: Space, search: str, known: Mapping[str, Mapping[str, Slicing]]
) -> tuple[dict[str, Slicing], Certificate]:
    """The plan with the smallest additive cost in `space`, widened by the slicings of the `known` plans."""
    solve = search_named(search)
    started = time.perf_counter()
    slicings, vectors = cost_layers(model, space, list(known.values()))
    costs = [sum(cost.total_s for cost in model.plan_costs(plan).values()) for plan in known.values()]
    kept = within_bound(vectors, min(costs, default=float("inf")))
    choices = tuple(tuple(options[index] for index in keep) for options, keep in zip(slicings, kept, strict=True))
    problem = Problem(
        vectors=tuple(vector[keep] for vector, keep in zip(vectors, kept, strict=True)),
        matrices=cost_edges(model, choices),
    )
    tables_s = time.perf_counter() - started
    started = time.perf_counter()
    alive = undominated(problem)
    solution = solve(problem.restricted(alive))
    search_s = time.perf_counter() - started
    chosen = {
        layer.name: options[keep[pick]]
        for layer, options, keep, pick in zip(model.graph, choices, alive, solution.choice, strict=True)
    }
    space_size = 1.0
    for options in slicings:
        space_size *= len(options)
    return chosen, Certificate(
        objective="additive_s",
        space=f"{space}{'; and the slicings of ' + ', '.join(known) if known else ''}",
        constraints=(),
        method=solution.method,
        optimal=True,
        gap=0.0,
        layers=len(model.graph),
        configurations=sum(map(len, slicings)),
        space_size=space_size,
        surviving=sum(map(len, alive)),
        surviving_largest=max(map(len, alive)),
        remaining_nodes=solution.remaining_nodes,
        tables_s=tables_s,
        search_s=search_s,
    )
