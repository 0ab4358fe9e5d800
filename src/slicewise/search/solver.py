"""The search from tables that would be too large to tables that are small: bound, prune, refine, eliminate.

    coarse problems    bounds for groups of slicings on a machine with its inner axes merged (search/coarse.py)
    a plan in hand     the most promising slicings of every layer, solved exactly
    the fine problem   tables of what is left, bounds by message passing (search/bounds.py), then elimination

Every choice dropped is one that no plan cheaper than the one in hand can use, so the result is the optimum.
"""

import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.search.bounds import Bounds
from slicewise.search.branching import branch_and_bound
from slicewise.search.deadline import TimeIsUp, over
from slicewise.search.elimination import Elimination, carried_out, planned
from slicewise.search.problem import Problem, edge_tables, tie_tables
from slicewise.search.refine import Refinement
from slicewise.search.registry import search_named
from slicewise.search.solution import Solution
from slicewise.units import ROUNDING

_PROMISING = 32  # choices per layer for a first plan
_QUICK_PAIRS = 3e5  # entries per table that are sooner made than bounded
_MERGED_AXES = 3
_FIRST_LOOK = 64  # slicings per layer to look into at first; half as many more in each round
_FINE_PASSES = 40
_ENTRIES_PER_NODE = 1e5  # that elimination looks at while a pass visits a node, however few choices that has
_NEARLY_ALL = 0.8  # of the choices: to cut tables takes longer than to pass over what could go
_LIMIT = 3e10
_PATIENCE_S = 10.0  # with tables of promising slicings, where elimination would take long

Progress = Callable[[str], None]


@dataclass(kw_only=True)
class Effort:
    """What the search took, and what was left."""

    surviving: list[int] = field(default_factory=list)
    bounds: list[Floats] = field(default_factory=list)  # per layer and choice: no plan that uses it costs less
    work: float = 0.0
    tables_s: float = 0.0
    search_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    search: str = "elimination"
    time_limit_s: float = float("inf")
    gap: float = 0.0  # a plan proven to be this close to the optimum will do
    progress: Progress = lambda _: None
    started_s: float = field(default_factory=time.perf_counter)

    @property
    def deadline_s(self) -> float:
        """One for all searches of a request."""
        return self.started_s + self.time_limit_s

    def until(self, deadline_s: float) -> "Settings":
        """The same, ended by then."""
        return replace(self, time_limit_s=min(self.time_limit_s, deadline_s - self.started_s))


class Reach:
    """How dear the plans are whose choices are told apart: up to the best by the tables, or by another measure."""

    def __init__(self, known: float = 0.0, measured: Callable[[Sequence[int]], float] | None = None) -> None:
        """`known`: the best by the other measure so far; `measured`: a plan by it, never below what the tables say."""
        self._least, self._measured = known, measured
        self._seen: set[tuple[int, ...]] = set()

    def of(self, best: Solution) -> float:
        if self._measured is not None and best.choice not in self._seen:
            self._seen.add(best.choice)
            self._least = min(self._least, self._measured(best.choice))
        return max(best.cost, self._least)


def solve(
    model: CostModel,
    choices: Sequence[Choices],
    vectors: Sequence[Floats],
    plans: Sequence[Sequence[int]],
    settings: Settings,
    effort: Effort,
    reach: Reach | None = None,
) -> Solution:
    """The best choice per layer for these vectors and the model's edges; `plans` are choices known beforehand.

    `effort.bounds` tell apart the choices that plans within `reach` may use.
    """
    reach = reach or Reach()
    clock = _Clock(effort)
    best = best_known(model, choices, vectors, [*plans, [0] * len(choices)])  # any plan will do where none is known
    effort.bounds, lower = _layer_bounds(vectors), _least(vectors)
    clock.charge("tables_s")
    kept = _within(effort.bounds, reach.of(best))
    if _is_large(model, kept):
        if not over(settings.deadline_s):
            best, effort.bounds, lower = _refined(model, choices, vectors, kept, best, settings, clock, reach)
            kept = _within(effort.bounds, best.cost)
        if over(settings.deadline_s) or lower >= best.cost * (1 - settings.gap):
            effort.surviving = [len(keep) for keep in kept]
            return replace(best, lower=min(lower, best.cost), method="refinement")
    settings.progress(f"pricing the layout changes between {sum(map(len, kept))} slicings")
    try:
        problem = _problem(model, choices, vectors, kept, best.cost, settings.deadline_s)
    except TimeIsUp:
        effort.surviving = [len(keep) for keep in kept]
        return replace(best, lower=min(lower, best.cost), method="branch and bound")
    finally:
        clock.charge("tables_s")
    solution = _finish(problem, kept, best, settings, effort, settings.deadline_s)
    clock.charge("search_s")
    return replace(solution, lower=max(solution.lower, min(lower, solution.cost)))


def solve_tables(problem: Problem, plans: Sequence[Sequence[int]], deadline_s: float = float("inf")) -> Solution:
    """The best choice per node of tables that are there; `plans` are choices known beforehand."""
    costs = [problem.cost(plan) for plan in plans]
    first = int(np.argmin(costs))
    best = Solution(choice=tuple(plans[first]), cost=costs[first], lower=0.0, method="")
    everything = [np.arange(size) for size in problem.sizes]
    patience_s = min(deadline_s, time.perf_counter() + _PATIENCE_S)
    return _finish(problem, everything, best, Settings(), Effort(), patience_s)


def _finish(
    problem: Problem, kept: list[Ints], best: Solution, settings: Settings, effort: Effort, deadline: float
) -> Solution:
    """Passes until they meet the plan in hand or elimination is as cheap; branch and bound where it never is.

    Where equal layers keep the same choices, what is done to one block of a network serves all of its kind. So two
    problems are looked at: every layer's own choices, and those that any of its equals has left.
    """
    whole, everything = problem, kept
    left_of = [np.arange(size) for size in problem.sizes]
    bounds = Bounds(problem=problem, deadline_s=deadline)
    elimination, rows = None, left_of
    now = (sum(problem.sizes), float("inf"))  # choices left, and how far plan and bound are apart
    for number in range(_FINE_PASSES):
        try:
            plan = bounds.forward()
        except TimeIsUp:
            break
        cost = bounds.problem.cost(plan)
        if cost < best.cost:
            choice = tuple(int(keep[a]) for keep, a in zip(kept, plan, strict=True))
            best = Solution(choice=choice, cost=cost, lower=best.lower, method=best.method)
        try:
            bounds.backward()
        except TimeIsUp:
            break
        for known, keep, of_kept in zip(effort.bounds, kept, bounds.of_choice, strict=False):
            known[keep] = np.maximum(known[keep], of_kept)
        if number == 0:
            best = _from_promising(bounds, kept, best, deadline)
        left = _worth_cutting(bounds.problem, bounds.within(best.cost))
        left_of = [rows[more] for rows, more in zip(left_of, left, strict=True)]
        kept = [keep[rows] for keep, rows in zip(kept, left, strict=True)]
        before, now = now, (sum(map(len, left)), best.cost - bounds.lower)
        bounds = bounds.restricted(left)
        met = bounds.lower >= best.cost * (1 - ROUNDING)  # nothing is left to look at
        elimination, rows = (None, left_of) if met else _cheaper(whole, bounds.problem, left_of)
        effort.work = elimination.work if elimination else 0.0
        settings.progress(
            f"pass {number + 1}: {sum(map(len, kept))} slicings left, {effort.work:.2g} entries to look at"
        )
        stuck = number > 0 and now[0] > 0.97 * before[0] and now[1] > 0.9 * before[1]
        if met or effort.work <= _as_long_as_a_pass(bounds.problem) or over(deadline):
            break
        if effort.work <= _LIMIT and stuck:
            break
    effort.surviving = bounds.problem.sizes
    if effort.work > _LIMIT or over(deadline):
        found = branch_and_bound(bounds, best.cost, deadline, settings.progress, settings.gap)
    elif settings.search != "elimination":
        kept = [keep[held] for keep, held in zip(everything, rows, strict=True)]
        found = search_named(settings.search)(whole.restricted(rows))
    elif elimination:
        kept = [keep[held] for keep, held in zip(everything, rows, strict=True)]
        try:
            found = carried_out(elimination, deadline)
        except TimeIsUp:
            found = Solution(choice=(), cost=best.cost, lower=bounds.lower, method="branch and bound")
    else:
        found = Solution(choice=(), cost=best.cost, lower=bounds.lower, method="elimination")
    if not found.choice or found.cost >= best.cost:  # equal up to rounding, or the deadline came first
        return Solution(choice=best.choice, cost=best.cost, lower=min(found.lower, best.cost), method=found.method)
    choice = tuple(int(keep[a]) for keep, a in zip(kept, found.choice, strict=True))
    return Solution(choice=choice, cost=found.cost, lower=min(found.lower, found.cost), method=found.method)


def _from_promising(bounds: Bounds, kept: Sequence[Ints], best: Solution, deadline: float) -> Solution:
    """The best plan of each node's most promising choices, where that is sooner found than another pass made."""
    problem = bounds.problem
    if bounds.lower >= best.cost * (1 - ROUNDING) or sum(problem.sizes) < 2 * _PROMISING * len(problem.sizes):
        return best
    rows = [_most_promising(of_choice) for of_choice in bounds.of_choice]
    elimination = planned(problem.restricted(rows))
    if elimination.work > _as_long_as_a_pass(problem):
        return best
    try:
        found = carried_out(elimination, deadline)
    except TimeIsUp:
        return best
    if found.cost >= best.cost:
        return best
    choice = tuple(int(keep[row[a]]) for keep, row, a in zip(kept, rows, found.choice, strict=True))
    return replace(best, choice=choice, cost=found.cost)


def _worth_cutting(problem: Problem, left: list[Ints]) -> list[Ints]:
    """What is left, or everything where that is nearly all: equal layers then go on sharing their tables."""
    nearly_all = sum(map(len, left)) > _NEARLY_ALL * sum(problem.sizes)
    return [np.arange(size) for size in problem.sizes] if nearly_all else left


def _most_promising(bounds: Floats) -> Ints:
    """The choices with the lowest bounds, in order."""
    return np.sort(np.argsort(bounds, kind="stable")[:_PROMISING])


def _as_long_as_a_pass(problem: Problem) -> float:
    """Entries that elimination looks at while two more passes would be made."""
    sizes = problem.sizes
    return 4.0 * sum(sizes[i] * sizes[j] for i, j in problem.matrices) + _ENTRIES_PER_NODE * len(sizes)


def _cheaper(whole: Problem, own: Problem, left: list[Ints]) -> tuple[Elimination, list[Ints]]:
    """The elimination that looks at fewer entries, and the choices that it has per node."""
    alone = planned(own)
    shared = _shared(whole, left)
    if alone.work <= _as_long_as_a_pass(own) or list(map(len, shared)) == list(map(len, left)):
        return alone, left
    together = planned(whole.restricted(shared))
    return (alone, left) if alone.work <= together.work else (together, shared)


def _shared(problem: Problem, left: Sequence[Ints]) -> list[Ints]:
    """Per node, the choices that it or any node with the same costs has left."""
    keys = [vector.tobytes() for vector in problem.vectors]
    any_of: dict[bytes, set[int]] = {}
    for key, rows in zip(keys, left, strict=True):
        any_of.setdefault(key, set()).update(rows.tolist())
    union = {key: np.array(sorted(rows), dtype=np.int64) for key, rows in any_of.items()}
    return [union[key] for key in keys]


def entries(model: CostModel, choices: Sequence[Sized]) -> list[float]:
    """Of the tables of layout changes, edges that are alike counted once."""
    sizes: dict[tuple[int, int, int], float] = {}
    for i, j, slot in model.graph.edges:
        key = (model.alike[i], model.alike[j], slot)
        sizes[key] = max(sizes.get(key, 0.0), float(len(choices[i])) * len(choices[j]))
    return list(sizes.values())


def _is_large(model: CostModel, choices: Sequence[Sized]) -> bool:
    """Whether tables, on average, are sooner bounded than made."""
    sizes = entries(model, choices)
    return model.coarsens and sum(sizes) / max(1, len(sizes)) > _QUICK_PAIRS


def _refined(
    model: CostModel,
    choices: Sequence[Choices],
    vectors: Sequence[Floats],
    kept: Sequence[Ints],
    best: Solution,
    settings: Settings,
    clock: "_Clock",
    reach: Reach,
) -> tuple[Solution, list[Floats], float]:
    """A good plan, bounds that rule out most choices without pricing them one by one, and one for all plans.

    Cut short anywhere, the bounds are those that were reached.
    """
    axes = max(1, len(model.cluster.mesh.axes) - _MERGED_AXES)
    try:
        state = Refinement(model, axes, choices, vectors, kept, settings.deadline_s)
    except TimeIsUp:
        return best, _layer_bounds(vectors), _least(vectors)
    finally:
        clock.charge("tables_s")
    most = _FIRST_LOOK
    try:
        state.tighten(reach.of(best))
        best = _first_plan(model, choices, vectors, state.choice_bounds(), best, clock, settings.deadline_s)
        while state.groups_left() and state.lower < best.cost * (1 - max(ROUNDING, settings.gap)):
            settings.progress(
                f"between {state.lower:.6g} and {best.cost:.6g} s, {state.groups_left()} groups of slicings to look at"
            )
            state.split(reach.of(best), most)
            clock.charge("tables_s")
            state.tighten(reach.of(best))
            clock.charge("search_s")
            if state.groups_left():  # what is left is solved as it is otherwise
                best = _first_plan(model, choices, vectors, state.choice_bounds(), best, clock, settings.deadline_s)
            most += most // 2
    except TimeIsUp:
        clock.charge("search_s")
    return best, state.choice_bounds(), max(state.lower, _least(vectors))


def _least(vectors: Sequence[Floats]) -> float:
    """No plan costs less: transfers cost at least nothing."""
    return sum(float(vector.min()) for vector in vectors)


def _layer_bounds(vectors: Sequence[Floats]) -> list[Floats]:
    """Every layer's cheapest, and what a choice costs above that."""
    least = _least(vectors)
    return [least + vector - vector.min() for vector in vectors]


def _within(bounds: Sequence[Floats], upper: float) -> list[Ints]:
    limit = upper * (1 + ROUNDING)
    return [np.flatnonzero(bound <= limit) for bound in bounds]


def _problem(
    model: CostModel,
    choices: Sequence[Choices],
    vectors: Sequence[Floats],
    kept: Sequence[Ints],
    upper: float,
    deadline_s: float = float("inf"),
) -> Problem:
    """The tables of what is kept; plans that slice tied layers differently cost more than `upper`."""
    held = [rows.rows(keep) for rows, keep in zip(choices, kept, strict=True)]
    matrices = edge_tables(model, held, deadline_s)
    for pair, matrix in tie_tables(model, held, 2 * upper).items():
        matrices[pair] = matrices[pair] + matrix if pair in matrices else matrix
    return Problem(vectors=tuple(vector[keep] for vector, keep in zip(vectors, kept, strict=True)), matrices=matrices)


def best_known(
    model: CostModel, choices: Sequence[Choices], vectors: Sequence[Floats], plans: Sequence[Sequence[int]]
) -> Solution:
    """The cheapest of `plans`, priced all at once; none where all of them tear ties apart."""
    never = float("inf")
    best = Solution(choice=(), cost=never, lower=0.0, method="")
    if not plans:
        return best
    used = [np.unique(rows, return_inverse=True) for rows in zip(*plans, strict=True)]
    problem = _problem(model, choices, vectors, [rows for rows, _ in used], never)
    for number, plan in enumerate(plans):
        cost = problem.cost([int(index[number]) for _, index in used])
        if cost < best.cost:
            best = Solution(choice=tuple(plan), cost=cost, lower=0.0, method="")
    return best


def _first_plan(
    model: CostModel,
    choices: Sequence[Choices],
    vectors: Sequence[Floats],
    bounds: Sequence[Floats],
    best: Solution,
    clock: "_Clock",
    deadline_s: float,
) -> Solution:
    """The best plan made of each layer's most promising choices."""
    kept = [_most_promising(bound) for bound in bounds]
    problem = _problem(model, choices, vectors, kept, best.cost, deadline_s)
    clock.charge("tables_s")
    quiet = Settings()
    found = _finish(problem, kept, best, quiet, Effort(), min(deadline_s, time.perf_counter() + _PATIENCE_S))
    clock.charge("search_s")
    return found


class _Clock:
    """Charges the time since the last charge."""

    def __init__(self, effort: Effort) -> None:
        self.effort, self.since = effort, time.perf_counter()

    def charge(self, account: str) -> None:
        now = time.perf_counter()
        setattr(self.effort, account, getattr(self.effort, account) + now - self.since)
        self.since = now
