"""Pipeline: every device holds one stage of the network; the batch follows through them in S segments.

    compute          D (p + S - 1) / S  (max FW_g + max BW_g) + (D/B) max WU_g
    communication    2 D (p + S - 2) / B  max(alpha + (B/S) y_g delta beta)
    memory           2 delta max_g S(B (x + y) + w)
    limit            p <= G, the stages that the network can be cut into with one tensor going on behind each

Cuts balance FW + BW of the stages exactly, by dynamic programming: once for every bound on y_g, so that a cut behind a
large tensor is avoided where that costs less than it saves. S is the best of the batch's divisors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.factors import divisors
from slicewise.partition.choices import Floats
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Setting, Terms


def project(at: Setting) -> Iterator[Terms]:
    p, batch = at.devices, at.batch
    if p < 2:
        raise InfeasibleError(f"devices: a pipeline needs two or more (got {p})")
    most = at.profile.cuts.most_stages
    if p > most:
        raise InfeasibleError(f"layers: {at.profile.graph.name} cuts into {most} stages, too few for {p} devices")
    line = at.links.neighbour(p)
    held = at.layer_bytes(batch, 1.0)
    bounds = sorted({float(at.profile.y[cut]) for cut in at.profile.cuts.legal})
    for segments, bound in product(divisors(batch), bounds):
        samples = batch // segments
        cuts = balanced(at.profile, samples, p, bound)
        if cuts is None:
            continue
        starts = np.array([0, *(cut + 1 for cut in cuts)])
        seconds = at.seconds(samples)
        slowest_s = np.add.reduceat(seconds.forward, starts).max() + np.add.reduceat(seconds.backward, starts).max()
        update_s = float(np.add.reduceat(at.update_s, starts).max())
        sent_bytes = samples * float(at.profile.y[cuts].max()) * at.item_bytes
        yield Terms(
            compute_s=float((p + segments - 1) * slowest_s) + update_s,
            update_s=update_s,
            p2p_s=2 * (p + segments - 2) * line.seconds(sent_bytes),
            memory_bytes=float(np.add.reduceat(held, starts).max()),
            split=f"{p} stages, {segments} segments",
        )


def balanced(profile: Profile, samples: int, stages: int, bound: float) -> NDArray[np.int64] | None:
    """The positions of the layers that end a stage, but the last, so that the slowest stage is as fast as can be.

    Only behind layers that write at most `bound` items per sample; None where those are too few.

    best[s, j] = min over cuts i < j of max(best[s-1, i], seconds between i and j): one table for all numbers of stages.
    """
    legal = np.array([cut for cut in profile.cuts.legal if profile.y[cut] <= bound], dtype=np.int64)
    if stages > len(legal) + 1:
        return None
    table = profile.remembered(("stages", samples, bound), lambda: Table.of(profile.seconds(samples).both, legal))
    return legal[table.cuts(stages)]


@dataclass(slots=True)
class Table:
    """best[s, j] for more and more stages s."""

    before: Floats  # seconds of all layers before each cut
    total_s: float
    slowest: list[Floats]

    @classmethod
    def of(cls, seconds: Floats, legal: NDArray[np.int64]) -> "Table":
        both = np.cumsum(seconds)
        return cls(both[legal], float(both[-1]), [both[legal]])

    def cuts(self, stages: int) -> list[int]:
        """Which cuts make `stages` stages."""
        while len(self.slowest) < stages - 1:
            self.slowest.append(self._one_more())
        found = [int(np.maximum(self.slowest[stages - 2], self.total_s - self.before).argmin())]
        for slowest in reversed(self.slowest[: stages - 2]):
            last = found[-1]
            found.append(int(np.maximum(slowest[:last], self.before[last] - self.before[:last]).argmin()))
        return found[::-1]

    def _one_more(self) -> Floats:
        """With one stage more behind each cut.

        A later cut i makes best[s-1, i] longer and the stage behind it shorter: the best one is where the two meet.
        """
        best, before = self.slowest[-1], self.before
        fewest = len(self.slowest) - 1  # cuts before the first that best[s-1] can end with
        ends = np.arange(len(before))

        def stage_s(first: NDArray[np.int64]) -> Floats:
            return before - before[first]

        # the first cut from which on best is the longer of the two, up to rounding, which the loops correct
        meet = np.searchsorted(best[fewest:] + before[fewest:], before) + fewest
        meet = np.minimum(meet, ends)
        while (late := (meet > fewest) & (best[meet - 1] >= stage_s(meet - 1))).any():
            meet = meet - late
        while (early := (meet < ends) & (best[meet] < stage_s(meet))).any():
            meet = meet + early
        from_there = np.where(meet < ends, best[np.minimum(meet, ends)], np.inf)
        from_before = np.where(meet > fewest, stage_s(meet - 1), np.inf)
        return np.where(ends > fewest, np.minimum(from_there, from_before), np.inf)
