"""Of plans that take about as long, the one with the fewest changes of slicing.

A gain below what a prediction can tell is not worth a plan that is harder to read and to run: layout changes have costs
that no model knows. So stretches of layers take over the slicing of their neighbours as long as the simulated step
stays within the tolerance, and a baseline is returned where nothing beats it by more.
"""

from collections.abc import Iterator, Sequence

from slicewise.graph.kind import Trait
from slicewise.search.descent import Descent
from slicewise.search.shortlist import Rows


def simplified(descent: Descent, plan: Rows, others: Sequence[Rows], limit_s: float) -> list[int]:
    """`plan`, one of the `others` or what becomes of it, with the fewest changes; its step takes at most `limit_s`."""
    now = list(plan)
    for other, seconds in zip(others, descent.simulated_s(others), strict=True):
        if seconds <= limit_s and changes(descent, other) < changes(descent, now) and descent.fits(other):
            now = list(other)
    while tried := list(_merged(descent, now)):
        seconds = descent.simulated_s(tried)
        fitting = [
            (changes(descent, merged), took_s, merged)
            for merged, took_s in zip(tried, seconds, strict=True)
            if took_s <= limit_s and descent.fits(merged)
        ]
        if not fitting:
            break
        now = min(fitting)[2]
    return now


def changes(descent: Descent, plan: Rows) -> int:
    """Edges between layers that are sliced differently; what ranks feed and get is not a choice."""
    graph = descent.listed.model.graph
    return sum(
        descent.labels(i, plan[i]) != descent.labels(j, plan[j])
        for i, j, _ in graph.edges
        if not (graph.layers[i].kind.has(Trait.EDGE) or graph.layers[j].kind.has(Trait.EDGE))
    )


def _merged(descent: Descent, now: list[int]) -> Iterator[list[int]]:
    """Every stretch with the slicing of a neighbour of one of its layers, where that leaves fewer changes."""
    graph = descent.listed.model.graph
    before = changes(descent, now)
    groups = descent.stretches(now)
    stretch_of = {node: number for number, group in enumerate(groups) for node in group}
    near: dict[int, set[bytes]] = {}
    for i, j, _ in graph.edges:
        for node, other in ((i, j), (j, i)):
            if stretch_of[node] != stretch_of[other]:
                near.setdefault(stretch_of[node], set()).add(descent.labels(other, now[other]))
    for number, wanted in near.items():
        for labels in sorted(wanted):
            plan = list(now)
            for node, row in descent.given(groups[number], labels).items():
                plan[node] = row
            if changes(descent, plan) < before:
                yield plan
