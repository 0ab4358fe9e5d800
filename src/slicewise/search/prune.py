"""Dropping choices that no optimal plan needs.

By bound, before any edge is costed: transfers cost at least nothing, so a plan that uses choice a of layer i costs at
least the sum of all layers' cheapest choices plus what a costs above layer i's cheapest. Where that exceeds the cost of
a plan already in hand, a is out.

By dominance (dead-end elimination, as Goldstein states it for protein design): choice a is out if swapping it for b
never costs more, whatever the neighbours choose:  vector(b) - vector(a) + sum over edges of max over k of
(table(b, k) - table(a, k)) <= 0.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slicewise.search.problem import Floats, Problem

_SAMPLE = 16
_TOLERANCE = 1e-12


def within_bound(vectors: Sequence[Floats], incumbent: float) -> list[NDArray[np.int64]]:
    """Per node, the choices that can be part of a plan no dearer than `incumbent`."""
    slack = incumbent - sum(float(vector.min()) for vector in vectors)
    slack += _TOLERANCE * abs(incumbent)
    return [np.flatnonzero(vector - vector.min() <= slack) for vector in vectors]


def undominated(problem: Problem) -> list[NDArray[np.int64]]:
    """Per node, the choices left when dominated ones are dropped, node by node."""
    alive = [np.arange(len(vector)) for vector in problem.vectors]
    edges: list[list[tuple[int, Floats]]] = [[] for _ in alive]
    for (i, j), matrix in problem.matrices.items():
        edges[i].append((j, matrix))
        edges[j].append((i, matrix.T))
    for node in range(len(alive)):
        if len(alive[node]) > 1:
            tables = [matrix[np.ix_(alive[node], alive[other])] for other, matrix in edges[node]]
            alive[node] = alive[node][_survivors(problem.vectors[node][alive[node]], tables)]
    return alive


def _survivors(vector: Floats, tables: list[Floats]) -> NDArray[np.int64]:
    # A few columns of each table tell most pairs apart; only pairs that pass are compared in full.
    gain = vector[None, :] - vector[:, None]  # [a, b]: what b costs more than a
    for table in tables:
        columns = table[:, np.linspace(0, table.shape[1] - 1, min(_SAMPLE, table.shape[1])).astype(int)]
        gain = gain + (columns[None, :, :] - columns[:, None, :]).max(axis=2)
    np.fill_diagonal(gain, np.inf)
    dropped = np.zeros(len(vector), dtype=bool)
    for a in np.argsort(-vector, kind="stable"):
        for b in np.flatnonzero(gain[a] <= 0):
            if not dropped[b] and vector[b] - vector[a] + sum(float((t[b] - t[a]).max()) for t in tables) <= 0:
                dropped[a] = True
                break
    return np.flatnonzero(~dropped)
