"""Where another slicing would win: the nearest bandwidth of each tier and the nearest batch, other layers fixed.

Every cost is a + b / x in a tier's bandwidth x, so two models give both coefficients and two lines one crossing. In
the batch costs are not straight (kernels fill up, parts are rounded): batches are tried in steps of two, and between
two of them the difference is taken as straight.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slicewise.cluster.scaled import with_link
from slicewise.cost.model import CostModel
from slicewise.explaining.stretch import Assignment, Stretch
from slicewise.graph.chunks import refusal
from slicewise.partition.choices import Floats

FURTHEST = 100.0  # times faster or slower: beyond, a threshold says nothing about a real machine
_BATCHES = (0.5, 0.25, 0.125), (2, 4, 8)
_EQUAL = 1e-6  # of a step: costs that differ by less are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Beyond `factor` times today's value, on the side away from 1, the stretch would be sliced as `becomes`."""

    what: str  # "inter bandwidth" or "batch"
    factor: float
    value: float  # bytes per second, or samples
    becomes: str


@dataclass(frozen=True, eq=False)
class Changed:
    """The same plan's models on machines and with batches that are a little different, made once for all stretches."""

    model: CostModel

    @cached_property
    def doubled(self) -> list[CostModel]:
        """One for each tier, with twice its bandwidth."""
        cluster = self.model.cluster
        return [replace(self.model, cluster=with_link(cluster, tier.name, bandwidth=2.0)) for tier in cluster.tiers]

    @cached_property
    def batches(self) -> list[list[CostModel]]:
        """Smaller and smaller ones, larger and larger ones."""
        graph = self.model.graph
        sizes = [[graph.batch * factor for factor in factors] for factors in _BATCHES]
        sized = [[graph.with_batch(int(size)) for size in side if size >= 1 and size % 1 == 0] for side in sizes]
        return [[replace(self.model, graph=other) for other in side if not any(map(refusal, other))] for side in sized]

    def flips(self, stretch: Stretch, others: Sequence[tuple[str, Assignment]]) -> tuple[Flip, ...]:
        """At most one for each tier and one for the batch; none where another is better as it is."""
        names, assignments = [name for name, _ in others], [stretch.chosen, *(other for _, other in others)]
        now_s = stretch.seconds(self.model, assignments)
        gaps_s = now_s[1:] - now_s[0]
        if not names or gaps_s.min() <= _EQUAL * now_s[0]:
            return ()
        crossings = {
            f"{tier.name} bandwidth": self._bandwidths(stretch, assignments, model, now_s)
            for tier, model in zip(self.model.cluster.tiers, self.doubled, strict=True)
        }
        crossings["batch"] = self._sizes(stretch, assignments, gaps_s)
        today = {f"{tier.name} bandwidth": tier.bytes_per_s for tier in self.model.cluster.tiers}
        today["batch"] = self.model.graph.batch
        return tuple(
            Flip(what=what, factor=factor, value=factor * today[what], becomes=names[number])
            for what, found in crossings.items()
            for factor, number in sorted(found, key=lambda crossing: max(crossing[0], 1 / crossing[0]))[:1]
        )

    def _bandwidths(
        self, stretch: Stretch, assignments: Sequence[Assignment], doubled: CostModel, now_s: Floats
    ) -> list[tuple[float, int]]:
        """gap(x) = gap(1) + slope (1/x - 1), with half of the slope gone at x = 2."""
        then_s = stretch.seconds(doubled, assignments)
        gaps_s = now_s[1:] - now_s[0]
        slopes_s = 2 * (gaps_s - (then_s[1:] - then_s[0]))
        found = []
        for number, (gap_s, slope_s) in enumerate(zip(gaps_s, slopes_s, strict=True)):
            inverse = 1 - gap_s / slope_s if slope_s else 0.0
            if 1 / FURTHEST <= inverse <= FURTHEST:
                found.append((float(1 / inverse), number))
        return found

    def _sizes(self, stretch: Stretch, assignments: Sequence[Assignment], gaps_s: Floats) -> list[tuple[float, int]]:
        found = []
        for models in self.batches:
            last = {number: (1.0, float(gap_s)) for number, gap_s in enumerate(gaps_s)}
            for model in models:
                factor = model.graph.batch / self.model.graph.batch
                possible = [n for n in last if factor > 1 or stretch.legal(model, assignments[n + 1])]
                if not possible or not (factor > 1 or stretch.legal(model, stretch.chosen)):
                    break
                seconds = stretch.seconds(model, [stretch.chosen, *(assignments[number + 1] for number in possible)])
                passed = []
                for number, gap_s in zip(possible, (seconds[1:] - seconds[0]).tolist(), strict=True):
                    before, before_s = last[number]
                    if gap_s < 0:
                        passed.append((before + before_s / (before_s - gap_s) * (factor - before), number))
                    last[number] = factor, gap_s
                if passed:
                    found.append(min(passed, key=lambda crossing: abs(crossing[0] - 1)))
                    break
        return found
