"""Of plans that take about as long, the one with the fewest changes of slicing.

A gain below what a prediction can tell is not worth a plan that is harder to read and to run: layout changes have costs
that no model knows. So stretches of layers take over the slicing of their neighbours as long as the simulated step
stays within the tolerance, and a baseline is returned where nothing beats it by more.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.search.deadline import over
from slicewise.search.descent import Descent
from slicewise.search.shortlist import Rows

_MANY = 16  # changes that could go: then several are taken back at a time


def simplified(
    descent: Descent, plan: Rows, others: Sequence[Rows], limit_s: float, deadline_s: float = float("inf")
) -> list[int]:
    """`plan`, one of the `others` or what becomes of it, with the fewest changes; its step takes at most `limit_s`."""
    now, turns = list(plan), _Turns(descent)
    for other, took_s in zip(others, descent.simulated_s(others), strict=True):
        if took_s <= limit_s and turns.count(other) < turns.count(now) and descent.fits(other):
            now = list(other)
    while not over(deadline_s) and (tried := list(_merged(descent, now, turns))):
        fitting = _fitting(descent, tried, turns, limit_s)
        if not fitting:
            break
        together = fitting if len(fitting) > _MANY else fitting[:1]
        moves = [{node: row for node, row in enumerate(merged) if row != now[node]} for *_, merged in together]
        joined = list(descent.joined(now, moves))
        now = min(fitting[0], *_fitting(descent, joined, turns, limit_s))[2]
    return now


def _fitting(
    descent: Descent, plans: Sequence[list[int]], turns: "_Turns", limit_s: float
) -> list[tuple[int, float, list[int]]]:
    """Changes, seconds and plan of those that are quick and small enough, the simplest first."""
    return sorted(
        (turns.count(plan), took_s, plan)
        for plan, took_s in zip(plans, descent.simulated_s(plans), strict=True)
        if took_s <= limit_s and descent.fits(plan)
    )


class _Turns:
    """Counts changes of slicing along edges; what ranks feed and get is not a choice."""

    def __init__(self, descent: Descent) -> None:
        self._slicing = descent.neighbours.labels
        self._ends = np.array(list(_inner_edges(descent.listed.model.graph)), dtype=np.int64).reshape(-1, 2).T

    def count(self, plan: Rows) -> int:
        slicings = np.array([numbers[row] for numbers, row in zip(self._slicing, plan, strict=True)])
        return int((slicings[self._ends[0]] != slicings[self._ends[1]]).sum())


def along_edges(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> int:
    """Edges between layers that are sliced differently."""
    names = [layer.name for layer in graph]
    return sum(slicings[names[i]] != slicings[names[j]] for i, j in _inner_edges(graph))


def _inner_edges(graph: LayerGraph) -> Iterator[tuple[int, int]]:
    for i, j, _ in graph.edges:
        if not (graph.layers[i].kind.has(Trait.EDGE) or graph.layers[j].kind.has(Trait.EDGE)):
            yield i, j


def _merged(descent: Descent, now: list[int], turns: _Turns) -> Iterator[list[int]]:
    """Every stretch with the slicing of a neighbour of one of its layers, where that leaves fewer changes."""
    graph = descent.listed.model.graph
    before = turns.count(now)
    groups = descent.neighbours.stretches(now)
    stretch_of = {node: number for number, group in enumerate(groups) for node in group}
    near: dict[int, set[int]] = {}
    for i, j, _ in graph.edges:
        for node, other in ((i, j), (j, i)):
            if stretch_of[node] != stretch_of[other]:
                near.setdefault(stretch_of[node], set()).add(int(descent.neighbours.labels[other][now[other]]))
    for number, wanted in near.items():
        for labels in sorted(wanted):
            plan = list(now)
            for node, row in descent.neighbours.given(groups[number], labels).items():
                plan[node] = row
            if turns.count(plan) < before:
                yield plan
