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
from slicewise.partition.choices import Floats
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Setting, Terms, divisors


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
    table = profile.remembered(("stages", samples, bound), lambda: _Table.of(profile, samples, legal))
    table.extend(stages - 1)
    chosen = [int(np.maximum(table.slowest[stages - 2], table.total_s - table.before).argmin())]
    for origin in reversed(table.came_from[: stages - 2]):
        chosen.append(int(origin[chosen[-1]]))
    return legal[chosen[::-1]]


@dataclass(slots=True)
class _Table:
    """best[s, j] for more and more stages s, and the cut before that each came from."""

    before: Floats  # seconds of all layers before each cut
    between: Floats  # [cut, later cut]
    total_s: float
    slowest: list[Floats]
    came_from: list[NDArray[np.int64]]

    @classmethod
    def of(cls, profile: Profile, samples: int, legal: NDArray[np.int64]) -> "_Table":
        both = np.cumsum(profile.seconds(samples).both)
        before = both[legal]
        order = np.arange(len(before))
        between = np.where(order[:, None] < order[None, :], before[None, :] - before[:, None], np.inf)
        return cls(before, between, float(both[-1]), [before], [])

    def extend(self, cuts: int) -> None:
        while len(self.slowest) < cuts:
            worst = np.maximum(self.slowest[-1][:, None], self.between)
            self.came_from.append(worst.argmin(axis=0))
            self.slowest.append(worst.min(axis=0))
