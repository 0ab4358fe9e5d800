"""From a cost model to the best slicing of every layer, with a certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from slicewise.cost.model import CostModel, LayerSeconds
from slicewise.errors import InfeasibleError
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_choices
from slicewise.search.baselines import BASELINES
from slicewise.search.elimination import irreducible_nodes
from slicewise.search.pins import Pins
from slicewise.search.solution import Solution
from slicewise.search.solver import OPTIMAL_GAP, Effort, Settings, solve


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was searched, how, and what was left of it."""

    objective: str
    space: str
    constraints: tuple[str, ...]
    method: str
    optimal: bool
    gap: float  # of the plan's cost: no plan in the space can be cheaper by more
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


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Every slicing that a search may choose, per layer, and what each costs by itself."""

    model: CostModel
    choices: tuple[Choices, ...]
    seconds: tuple[LayerSeconds, ...]

    @property
    def vectors(self) -> list[Floats]:
        return [row.total_s for row in self.seconds]

    def rows(self, plan: Mapping[str, Slicing]) -> list[int] | None:
        """A plan as positions among the choices; None where it uses one that is not there."""
        found = [rows.find(plan[layer.name]) for layer, rows in zip(self.model.graph, self.choices, strict=True)]
        return None if None in found else [row for row in found if row is not None]

    def slicings(self, choice: Sequence[int]) -> dict[str, Slicing]:
        return {
            layer.name: rows[row] for layer, rows, row in zip(self.model.graph, self.choices, choice, strict=True)
        }

    def memory(self, choice: Sequence[int]) -> tuple[int, int]:
        """Bytes kept, and the peak: with what the hungriest layer needs while it runs."""
        picked = list(zip(self.seconds, choice, strict=True))
        kept = sum(int(row.memory_bytes[a]) for row, a in picked)
        return kept, kept + max(int(row.transient_bytes[a]) for row, a in picked)


def baseline_slicings(model: CostModel) -> tuple[dict[str, dict[str, Slicing]], dict[str, str]]:
    """The baselines that exist for this network, and why the others do not."""
    found, reasons = {}, {}
    for name, build in BASELINES.items():
        try:
            found[name] = build(model)
        except InfeasibleError as error:
            reasons[name] = str(error)
    return found, reasons


def candidates(
    model: CostModel, space: Space, known: Mapping[str, Mapping[str, Slicing]], pins: Pins
) -> Candidates:
    """The legal slicings in `space` and those of the `known` plans, less what is pinned away. Equal layers are priced once."""
    planned: dict[int, list[Slicing]] = {}
    for layer, alike in zip(model.graph, model.alike, strict=True):
        planned.setdefault(alike, []).extend(plan[layer.name] for plan in known.values())
    shared: dict[object, tuple[Choices, LayerSeconds]] = {}
    rows = []
    for layer, alike in zip(model.graph, model.alike, strict=True):
        key = (alike, pins.of(layer))
        if key not in shared:
            choices = legal_choices(layer, model.cluster.mesh, space).including(planned[alike])
            choices = pins.restrict(layer, choices)
            shared[key] = choices, model.layer_seconds(layer, choices)
        rows.append(shared[key])
    return Candidates(
        model=model, choices=tuple(choices for choices, _ in rows), seconds=tuple(seconds for _, seconds in rows)
    )


def best_slicings(
    model: CostModel,
    space: Space,
    known: Mapping[str, Mapping[str, Slicing]],
    *,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    pins: Pins = Pins(),  # noqa: B008 (frozen)
) -> tuple[dict[str, Slicing], Certificate]:
    """The plan with the smallest additive cost in `space`, widened by the slicings of the `known` plans."""
    effort = Effort()
    pool = candidates(model, space, known, pins)
    plans = [rows for plan in known.values() if (rows := pool.rows(plan)) is not None]
    solution = solve(model, pool.choices, pool.vectors, plans, settings, effort)
    described = f"{space}{'; and the slicings of ' + ', '.join(known) if known else ''}"
    return pool.slicings(solution.choice), certify(pool, solution, effort, space=described, constraints=pins.spelled)


def certify(
    pool: Candidates,
    solution: Solution,
    effort: Effort,
    *,
    space: str,
    constraints: tuple[str, ...],
    objective: str = "additive_s",
) -> Certificate:
    gap = max(0.0, (solution.cost - solution.lower) / solution.cost) if solution.cost else 0.0
    sizes = [len(rows) for rows in pool.choices]
    graph = pool.model.graph
    return Certificate(
        objective=objective,
        space=space,
        constraints=constraints,
        method=solution.method,
        optimal=gap <= OPTIMAL_GAP,
        gap=0.0 if gap <= OPTIMAL_GAP else gap,
        layers=len(graph),
        configurations=sum(sizes),
        space_size=prod(map(float, sizes)),
        surviving=sum(effort.surviving),
        surviving_largest=max(effort.surviving),
        remaining_nodes=irreducible_nodes(len(graph), [(i, j) for i, j, _ in graph.edges]),
        tables_s=effort.tables_s,
        search_s=effort.search_s,
    )
