"""The ground truth for small problems: every combination, depth first."""

from slicewise.errors import RequestError
from slicewise.search.problem import Problem
from slicewise.search.solution import Solution

LIMIT = 10_000_000


def enumerate_all(problem: Problem) -> Solution:
    size = 1
    for vector in problem.vectors:
        size *= len(vector)
    if size > LIMIT:
        raise RequestError(f'exhaustive search over {size:.3g} plans would not end; use `search="elimination"`')
    edges_into: list[list[int]] = [[] for _ in problem.vectors]
    for i, j in problem.matrices:
        edges_into[j].append(i)
    best: tuple[float, tuple[int, ...]] = (float("inf"), ())
    chosen: list[int] = []

    def descend(cost: float) -> None:
        nonlocal best
        node = len(chosen)
        if node == len(problem.vectors):
            if cost < best[0]:
                best = (cost, tuple(chosen))
            return
        for option in range(len(problem.vectors[node])):
            step = problem.vectors[node][option]
            for earlier in edges_into[node]:
                step += problem.matrices[earlier, node][chosen[earlier], option]
            chosen.append(option)
            descend(cost + float(step))
            chosen.pop()

    descend(0.0)
    return Solution(choice=best[1], cost=best[0], lower=best[0], method="exhaustive")
