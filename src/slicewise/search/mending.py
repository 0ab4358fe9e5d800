"""From a plan that nearly fits a memory limit to one that fits, and from there to a faster one: a layer at a time."""

from collections.abc import Sequence

import numpy as np

from slicewise.partition.choices import Floats
from slicewise.search.problem import Problem
from slicewise.units import ROUNDING

_CHANGES = 64


class Mending:
    """Tables of time and, per layer and choice, bytes kept and bytes needed while the layer runs."""

    def __init__(
        self, seconds: Problem, memory: Sequence[Floats], transient: Sequence[Floats], limit_bytes: float
    ) -> None:
        self.seconds, self.limit = seconds, limit_bytes
        self._starts = np.cumsum([0, *seconds.sizes])
        self._node = np.repeat(np.arange(len(seconds.sizes)), seconds.sizes)
        self._memory, self._transient = np.concatenate(memory), np.concatenate(transient)
        self._edges: list[list[tuple[int, int]]] = [[] for _ in seconds.sizes]
        for pair in seconds.matrices:
            for node in pair:
                self._edges[node].append(pair)

    def mended(self, plan: Sequence[int], price: float) -> list[int]:
        """Changes one layer while that lowers the time plus a price of what exceeds the limit."""
        plan, starts = list(plan), self._starts
        seconds = np.concatenate([self._beside(node, plan) for node in range(len(plan))])
        for _ in range(_CHANGES):
            at = starts[:-1] + plan
            kept, needs = self._memory[at], self._transient[at]
            others = np.where(needs == needs.max(), np.partition(np.append(needs, 0.0), -2)[-2], needs.max())
            peak = kept.sum() - kept[self._node] + self._memory + np.maximum(self._transient, others[self._node])
            excess = max(0.0, float(kept.sum() + needs.max()) - self.limit)
            change = seconds - seconds[at][self._node] + price * (np.maximum(0.0, peak - self.limit) - excess)
            best = int(change.argmin())
            if change[best] >= -ROUNDING * abs(seconds).max():
                break
            node = int(self._node[best])
            plan[node] = best - int(starts[node])
            for other in {end for pair in self._edges[node] for end in pair} - {node}:
                seconds[starts[other] : starts[other + 1]] = self._beside(other, plan)
        return plan

    def _beside(self, node: int, plan: Sequence[int]) -> Floats:
        """What each choice of a layer takes beside the others of the plan."""
        seconds: Floats = self.seconds.vectors[node].copy()
        for i, j in self._edges[node]:
            matrix = self.seconds.matrices[i, j]
            seconds += matrix[:, plan[j]] if node == i else matrix[plan[i]]
        return seconds
