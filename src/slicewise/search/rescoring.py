"""The plan that is fastest when simulated, among the cheapest by the sum of terms.

The search minimises a sum in which nothing overlaps. So its optimum is simulated beside every baseline and beside the
optima of other weights (search/reweighting.py). The best of these is improved by parts of the others: layers that
differ and are joined by edges are taken over together, where that makes the simulated step shorter. What comes out is
never slower, simulated, than any of the plans that went in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.partition.choices import Choices
from slicewise.partition.layout import Slicing
from slicewise.search.certificate import OPTIMUM
from slicewise.search.pins import Pins
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING

_PARTS = 6  # taken over from one plan, those that change most layers first

Slicings = Mapping[str, Slicing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    slicings: Slicings
    simulated_s: float
    optimum_s: float  # of the additive optimum, simulated
    origin: str  # which plan it is, and which others it has parts of
    candidates: int


def rescored(
    model: CostModel,
    optimum: Slicings,
    others: Mapping[str, Slicings],
    *,
    pins: Pins = Pins(),  # noqa: B008 (frozen)
    memory_limit_bytes: float = float("inf"),
) -> Rescored:
    """`others` by name, as far as pinned layers are as they must be, and memory suffices."""

    def allowed(plan: Slicings) -> bool:
        mesh = model.cluster.mesh
        pinned = (pins.allows(layer, Choices.of([plan[layer.name]], mesh)).all() for layer in model.graph)
        return all(pinned) and sum(model.plan_costs(plan).values(), Cost()).peak_memory_bytes <= memory_limit_bytes

    many = ManyPlans(model)
    plans = {OPTIMUM: optimum, **{name: plan for name, plan in others.items() if allowed(plan)}}
    seconds = dict(zip(plans, many.simulated_s(list(plans.values())), strict=True))
    best = min(plans, key=lambda name: seconds[name] * (1 if name == OPTIMUM else 1 + ROUNDING))
    now, now_s, parts_of, count = dict(plans[best]), seconds[best], [], len(plans)
    for name, plan in plans.items():
        for part in _parts(model, now, plan):
            mixed = now | {layer: plan[layer] for layer in part}
            count += 1
            mixed_s = many.simulated_s([mixed])[0]
            if mixed_s < now_s * (1 - ROUNDING) and allowed(mixed):
                now, now_s = mixed, mixed_s
                parts_of.append(name)
    origin = f"{best}, with parts of {', '.join(dict.fromkeys(parts_of))}" if parts_of else best
    return Rescored(slicings=now, simulated_s=now_s, optimum_s=seconds[OPTIMUM], origin=origin, candidates=count)


def _parts(model: CostModel, now: Slicings, other: Slicings) -> Iterator[list[str]]:
    """Layers that the two plans slice differently, joined by edges or shared weights; the largest sets first."""
    groups = joined(model, now, other)
    if len(groups) > 1:
        names = [layer.name for layer in model.graph]
        for group in sorted(groups, key=len, reverse=True)[:_PARTS]:
            yield [names[position] for position in group]


def joined(model: CostModel, one: Slicings, other: Slicings) -> list[list[int]]:
    """The positions of layers that differ, in sets that no edge and no shared weight joins."""
    parent = {n: n for n, layer in enumerate(model.graph) if one[layer.name] != other[layer.name]}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    ties = ((tie[0], tied) for tie in model.graph.ties for tied in tie[1:])
    for before, after in (*((i, j) for i, j, _ in model.graph.edges), *ties):
        if before in parent and after in parent:
            parent[root(after)] = root(before)
    groups: dict[int, list[int]] = {}
    for node in parent:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())
