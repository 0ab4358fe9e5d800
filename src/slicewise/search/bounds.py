"""Lower bounds by message passing: how cheap can any plan be that uses a given choice?

Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006). Each edge carries a message to either end; it
moves cost from one node's choices to another's without changing what any plan costs. A pass visits the nodes in order,
adds up what each choice of a node would cost by all that is known (`theta`), and passes an equal share on along every
edge ahead; then the same backwards. On a chain two passes make every bound exact; with cycles bounds only rise, and
what they say stays true:

    any plan with choice a of node s costs at least  lower + theta_s[a] - min theta_s

Choices whose bound exceeds the cost of a plan in hand are out.
"""

from dataclasses import dataclass, field

import numpy as np

from slicewise.partition.choices import Floats, Ints
from slicewise.search.deadline import check
from slicewise.search.problem import Problem
from slicewise.units import ROUNDING


@dataclass(kw_only=True)
class Bounds:
    """The state of the passes over one problem."""

    problem: Problem
    lower: float = 0.0
    of_choice: list[Floats] = field(default_factory=list)  # per node, a bound for each choice
    deadline_s: float = float("inf")  # passes stop there; what messages say stays true
    _to_later: dict[tuple[int, int], Floats] = field(default_factory=dict)
    _to_earlier: dict[tuple[int, int], Floats] = field(default_factory=dict)
    _later: list[list[int]] = field(default_factory=list)
    _earlier: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.of_choice:  # going on from other passes
            return
        vectors = self.problem.vectors
        self.of_choice = [np.full(len(vector), -np.inf) for vector in vectors]
        self._later = [[] for _ in vectors]
        self._earlier = [[] for _ in vectors]
        for i, j in self.problem.matrices:
            self._later[i].append(j)
            self._earlier[j].append(i)
            self._to_later[i, j] = np.zeros(len(vectors[j]))
            self._to_earlier[i, j] = np.zeros(len(vectors[i]))

    def forward(self) -> list[int]:
        """One pass in order; returns a plan that follows the messages."""
        self._pass_on()
        problem, plan = self.problem, list[int]()
        for s, vector in enumerate(problem.vectors):
            if len(vector) == 1:
                plan.append(0)
                continue
            guess = vector.copy()
            for u in self._earlier[s]:
                guess += problem.matrices[u, s][plan[u]]
            for t in self._later[s]:
                guess += self._to_earlier[s, t]
            plan.append(int(guess.argmin()))
        return plan

    def _pass_on(self) -> None:
        problem, lower = self.problem, 0.0
        for s in range(len(problem.vectors)):
            check(self.deadline_s)
            theta = self._theta(s)
            least = float(theta.min())
            lower += least
            theta -= least
            self._note(s, theta)
            share = theta / max(len(self._later[s]), len(self._earlier[s]), 1)
            for t in self._later[s]:
                message = (problem.matrices[s, t] + (share - self._to_earlier[s, t])[:, None]).min(axis=0)
                least = float(message.min())
                lower += least
                self._to_later[s, t] = message - least
        self.lower = max(self.lower, lower)

    def backward(self) -> None:
        problem, lower = self.problem, 0.0
        for t in reversed(range(len(problem.vectors))):
            check(self.deadline_s)
            theta = self._theta(t)
            least = float(theta.min())
            lower += least
            theta -= least
            self._note(t, theta)
            share = theta / max(len(self._later[t]), len(self._earlier[t]), 1)
            for s in self._earlier[t]:
                message = (problem.matrices[s, t] + (share - self._to_later[s, t])[None, :]).min(axis=1)
                least = float(message.min())
                lower += least
                self._to_earlier[s, t] = message - least
        self.lower = max(self.lower, lower)

    def within(self, upper: float) -> list[Ints]:
        """Per node, the choices that a plan cheaper than `upper` may use; at least the most promising."""
        limit = upper + ROUNDING * abs(upper)
        return [
            kept if len(kept := np.flatnonzero(bounds <= limit)) else np.array([int(bounds.argmin())])
            for bounds in self.of_choice
        ]

    def tightened(self, upper: float, passes: int) -> tuple["Bounds", list[Ints]]:
        """After up to `passes` rounds, dropping on the way what cannot beat `upper`; and which choices are left."""
        bounds, kept = self, [np.arange(size) for size in self.problem.sizes]
        for _ in range(passes):
            bounds._pass_on()
            bounds.backward()
            left = bounds.within(upper)
            before, after = sum(map(len, kept)), sum(map(len, left))
            kept = [keep[rows] for keep, rows in zip(kept, left, strict=True)]
            bounds = bounds.restricted(left)
            if after > 0.99 * before:
                break
        return bounds, kept

    def restricted(self, kept: list[Ints]) -> "Bounds":
        """The same state for fewer choices."""
        return self.continued(self.problem.restricted(kept), kept)

    def continued(self, problem: Problem, rows: list[Ints]) -> "Bounds":
        """Passes over a finer problem, whose choice k of node s comes from choice rows[s][k] here."""
        return Bounds(
            problem=problem,
            lower=self.lower,
            deadline_s=self.deadline_s,
            of_choice=[bounds[row] for bounds, row in zip(self.of_choice, rows, strict=True)],
            _to_later={(i, j): message[rows[j]] for (i, j), message in self._to_later.items()},
            _to_earlier={(i, j): message[rows[i]] for (i, j), message in self._to_earlier.items()},
            _later=self._later,
            _earlier=self._earlier,
        )

    def _theta(self, s: int) -> Floats:
        theta = self.problem.vectors[s].copy()
        for u in self._earlier[s]:
            theta += self._to_later[u, s]
        for t in self._later[s]:
            theta += self._to_earlier[s, t]
        return theta

    def _note(self, s: int, above_least: Floats) -> None:
        # the bound of the last whole pass holds now; what this pass has reached so far may yet be less
        np.maximum(self.of_choice[s], self.lower + above_least, out=self.of_choice[s])
