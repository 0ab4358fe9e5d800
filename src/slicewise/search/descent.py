"""From a good plan to a better one by the simulated step: one layer or one stretch of layers at a time.

    layers    a a a b b b a a        a stretch: layers joined by edges that are sliced alike
    moves     a a a[c]b b a a        one layer as any of its slicings
              a a a[a a a]a a        a stretch as its neighbours, or as another plan in hand has it

All alternatives of a move are simulated at once (simulate/many.py). Slicings that cannot win are left out: a step takes
at least what the device itself is busy, whatever gradients cost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.search.candidates import Candidates
from slicewise.simulate.many import ManyPlans
from slicewise.units import ROUNDING

Choice = tuple[int, ...]
_AT_ONCE = 256
_MOST = 48  # slicings of one layer that are simulated, those with the least work first
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    choice: Choice
    seconds: float


class Descent:
    """Plans as positions among the choices of a pool, with buckets of one size."""

    def __init__(self, pool: Candidates, many: ManyPlans, bucket_items: int, allowed: Callable[[Choice], bool]) -> None:
        self.pool, self.many, self.bucket_items, self.allowed = pool, many, bucket_items, allowed
        graph = pool.model.graph
        self.readers: list[list[tuple[int, int]]] = [[] for _ in graph.layers]
        self.sources: list[list[tuple[int, int]]] = [[] for _ in graph.layers]
        for producer, consumer, slot in graph.edges:
            self.readers[producer].append((consumer, slot))
            self.sources[consumer].append((producer, slot))
        self.tied = {layer: tie for tie in graph.ties for layer in tie}

    def simulated(self, choices: Sequence[Choice]) -> Floats:
        """Of several plans at once."""
        seconds = [self._played(choices[start : start + _AT_ONCE]) for start in range(0, len(choices), _AT_ONCE)]
        return np.concatenate(seconds) if seconds else np.empty(0)

    def from_plan(self, start: Choice, others: Sequence[Choice], deadline: Callable[[], bool]) -> Simulated:
        """Downhill until nothing helps; `others`: plans in hand whose parts may be taken over."""
        best = Simulated(choice=start, seconds=float(self.simulated([start])[0]))
        for _ in range(_ROUNDS):
            before_s = best.seconds
            for moves in (self._stretch_moves, self._layer_moves):
                for candidates in moves(best, others):
                    if deadline():
                        return best
                    best = self._better(best, candidates)
            if best.seconds >= before_s * (1 - 1e-4):
                break
        return best

    def _better(self, best: Simulated, candidates: list[Choice]) -> Simulated:
        if not candidates:
            return best
        seconds = self.simulated(candidates)
        for number in np.argsort(seconds, kind="stable"):
            if seconds[number] >= best.seconds * (1 - ROUNDING):
                break
            if self.allowed(candidates[number]):
                return Simulated(choice=candidates[number], seconds=float(seconds[number]))
        return best

    def _layer_moves(self, best: Simulated, others: Sequence[Choice]) -> Iterator[list[Choice]]:
        """Every layer, with the slicings that could win by what they keep the device busy."""
        own = float(self._own_s([best.choice])[0])
        for layer, rows in enumerate(self.pool.choices):
            if len(rows) < 2 or self.tied.get(layer, (layer,))[0] != layer:
                continue
            yield [self._changed(best.choice, layer, row) for row in self._promising(best, own, layer)]

    def _promising(self, best: Simulated, own_s: float, layer: int) -> list[int]:
        now = best.choice[layer]
        busy = self.pool.seconds[layer].total_s - self.pool.seconds[layer].sync_s
        model, layers = self.pool.model, self.pool.model.graph.layers
        rows = self.pool.choices[layer]
        for producer, slot in self.sources[layer]:
            fixed = self._row(producer, best.choice)
            busy = busy + model.edge_seconds(layers[layer], slot, fixed, rows)[0]
        for consumer, slot in self.readers[layer]:
            fixed = self._row(consumer, best.choice)
            busy = busy + model.edge_seconds(layers[consumer], slot, rows, fixed)[:, 0]
        could = np.flatnonzero(own_s + busy - busy[now] < best.seconds * (1 - ROUNDING))
        order = could[np.argsort((busy + 0.25 * self.pool.seconds[layer].sync_s)[could], kind="stable")]
        return [int(row) for row in order[:_MOST] if row != now]

    def _stretch_moves(self, best: Simulated, others: Sequence[Choice]) -> Iterator[list[Choice]]:
        """Stretches as the layers around them are sliced, and as other plans have them."""
        for stretch in self._stretches(best.choice):
            found: dict[Choice, None] = {}
            around = {
                self._slicing(neighbour, best.choice)
                for layer in stretch
                for neighbour, _ in (*self.sources[layer], *self.readers[layer])
                if neighbour not in stretch
            }
            for labels in around:
                changed = self._as_sliced(best.choice, stretch, labels)
                if changed is not None:
                    found[changed] = None
            for other in others:
                if any(other[layer] != best.choice[layer] for layer in stretch):
                    found[tuple(other[n] if n in stretch else row for n, row in enumerate(best.choice))] = None
            found.pop(best.choice, None)
            yield [choice for choice in found if self._keeps_ties(choice)]

    def _stretches(self, choice: Choice) -> list[frozenset[int]]:
        """Layers joined by edges and sliced alike."""
        parent = list(range(len(choice)))

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        for producer, consumer, _ in self.pool.model.graph.edges:
            if self._slicing(producer, choice) == self._slicing(consumer, choice):
                parent[root(consumer)] = root(producer)
        groups: dict[int, set[int]] = {}
        for node in range(len(choice)):
            groups.setdefault(root(node), set()).add(node)
        return [frozenset(group) for group in sorted(groups.values(), key=len, reverse=True)]

    def _as_sliced(self, choice: Choice, stretch: frozenset[int], labels: bytes) -> Choice | None:
        """As many layers of the stretch as can be sliced so; None where none can."""
        changed = list(choice)
        for layer in stretch:
            row = self._rows[layer].get(labels)
            if row is not None:
                changed[layer] = row
        return tuple(changed) if tuple(changed) != choice else None

    @property
    def _rows(self) -> list[dict[bytes, int]]:
        if not hasattr(self, "_known_rows"):
            shared: dict[int, dict[bytes, int]] = {}
            for rows in self.pool.choices:
                if id(rows) not in shared:
                    shared[id(rows)] = {labels.tobytes(): row for row, labels in enumerate(rows.labels)}
            self._known_rows = [shared[id(rows)] for rows in self.pool.choices]
        return self._known_rows

    def _slicing(self, layer: int, choice: Choice) -> bytes:
        return self.pool.choices[layer].labels[choice[layer]].tobytes()

    def _row(self, layer: int, choice: Choice) -> Choices:
        return self.pool.choices[layer].rows(np.array([choice[layer]]))

    def _changed(self, choice: Choice, layer: int, row: int) -> Choice:
        together = self.tied.get(layer, (layer,))
        return tuple(row if number in together else old for number, old in enumerate(choice))

    def _keeps_ties(self, choice: Choice) -> bool:
        return all(len({choice[layer] for layer in tie}) == 1 for tie in self.pool.model.graph.ties)

    def _played(self, choices: Sequence[Choice]) -> Floats:
        return self.many.play(self._columns(choices), self.bucket_items).seconds

    def _own_s(self, choices: Sequence[Choice]) -> Floats:
        return self.many.play(self._columns(choices), self.bucket_items).own_s

    def _columns(self, choices: Sequence[Choice]) -> list[Choices]:
        """Per layer one row where all plans agree."""
        table: Ints = np.array(choices, dtype=np.int64)
        same = (table == table[0]).all(axis=0)
        return [
            rows.rows(table[:1, layer] if same[layer] else table[:, layer])
            for layer, rows in enumerate(self.pool.choices)
        ]
