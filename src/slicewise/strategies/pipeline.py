"""Pipeline: every device holds one stage of the network; the batch follows through them in S segments.

    compute          D (p + S - 1) / S  (max FW_g + max BW_g) + (D/B) max WU_g
    communication    2 D (p + S - 2) / B  max(alpha + (B/S) y_g delta beta)
    memory           max_g M(B, w), of what passes through only a segment
    limit            p <= G, the stages that the network can be cut into with one tensor going on behind each

Cuts balance FW + BW of the stages exactly, by dynamic programming: once for every bound on y_g, so that a cut behind a
large tensor is avoided where that costs less than it saves. S is the best of the batch's divisors. A cut lies where one
tensor goes on; where such places are too few for up to 16 devices, as in a U-Net, behind any layer: y_g is then all
that later layers read.
With recompute a stage keeps what comes in, and the activations of one segment: FW is run again before BW.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import InfeasibleError
from slicewise.factors import divisors
from slicewise.graph.kind import Trait
from slicewise.partition.choices import Floats
from slicewise.strategies.profile import Profile
from slicewise.strategies.setting import Setting, Terms

MOST_ANYWHERE = 16  # stages
BOUNDS_ANYWHERE = 6  # sizes that are tried there


def project(at: Setting) -> Iterator[Terms]:
    p, batch = at.devices, at.batch
    if p < 2:
        raise InfeasibleError(f"devices: a pipeline needs two or more (got {p})")
    profile = at.profile
    places = cuts_for(profile, p)
    if p > len(places) + 1:
        most = profile.cuts.most_stages
        raise InfeasibleError(f"layers: {profile.graph.name} cuts into {most} stages, too few for {p} devices")
    line = at.links.neighbour(p)
    bounds = _bounds(profile, places)
    for segments, bound in product(divisors(batch), bounds):
        samples = batch // segments
        cuts = balanced(profile, samples, p, bound)
        if cuts is None:
            continue
        starts = np.array([0, *(cut + 1 for cut in cuts)])
        seconds = at.seconds(samples)
        backward = seconds.backward
        if at.training.recompute:  # of other layers it is in there already
            backward = backward + np.where(profile.products, seconds.forward, 0.0)
        slowest_s = np.add.reduceat(seconds.forward, starts).max() + np.add.reduceat(backward, starts).max()
        update_s = float(np.add.reduceat(at.update_s, starts).max())
        sent_bytes = samples * float(profile.alive[cuts].max()) * at.item_bytes
        yield Terms(
            compute_s=float((p + segments - 1) * slowest_s) + update_s,
            update_s=update_s,
            p2p_s=2 * (p + segments - 2) * line.seconds(sent_bytes),
            memory_bytes=float(_stage_bytes(at, starts, samples).max()),
            split=f"{p} stages, {segments} segments",
        )


def cuts_for(profile: Profile, stages: int) -> NDArray[np.int64]:
    """The layers that a stage may end with."""
    if stages <= profile.cuts.most_stages or stages > MOST_ANYWHERE:
        return np.array(profile.cuts.legal, dtype=np.int64)
    computing = [at for at, layer in enumerate(profile.layers) if not layer.kind.has(Trait.FREE)]
    return np.array(computing[:-1], dtype=np.int64)


def _bounds(profile: Profile, places: NDArray[np.int64]) -> list[float]:
    """On what goes over a cut: every size there is; some of them where any layer will do."""
    sizes = np.unique(profile.alive[places])
    if len(places) > len(profile.cuts.legal):
        sizes = sizes[np.unique(np.linspace(0, len(sizes) - 1, BOUNDS_ANYWHERE).round().astype(int))]
    return [float(size) for size in sizes]


def _stage_bytes(at: Setting, starts: NDArray[np.int64], samples: int) -> Floats:
    """Of every stage: weights, what stays of the batch, and what passes through with a segment."""
    if at.training.recompute:
        read = sum(float(prod(layer.shape[1:])) for layer in at.profile.graph.inputs)
        incoming = np.append(read, at.profile.alive[starts[1:] - 1])
        held = at.layer_bytes(0.0, 1.0) + at.item_bytes * samples * at.profile.kept_at_once
        stays = np.add.reduceat(held, starts) + at.item_bytes * at.batch * incoming
    else:
        stays = np.add.reduceat(at.layer_bytes(at.batch, 1.0), starts)
    found: Floats = stays + np.maximum.reduceat(at.passing_bytes(samples), starts)
    return found


def balanced(profile: Profile, samples: int, stages: int, bound: float) -> NDArray[np.int64] | None:
    """The positions of the layers that end a stage, but the last, so that the slowest stage is as fast as can be.

    Only where at most `bound` items per sample go on; None where those places are too few.

    best[s, j] = min over cuts i < j of max(best[s-1, i], seconds between i and j): one table for all numbers of stages.
    """
    places = cuts_for(profile, stages)
    legal = places[profile.alive[places] <= bound]
    if stages > len(legal) + 1:
        return None
    key = ("stages", samples, bound, len(places))
    table = profile.remembered(key, lambda: StageTable.of(profile.seconds(samples).both, legal))
    return legal[table.cuts(stages)]


@dataclass(slots=True)
class StageTable:
    """best[s, j] for more and more stages s."""

    before: Floats  # seconds of all layers before each cut
    total_s: float
    slowest: list[Floats]

    @classmethod
    def of(cls, seconds: Floats, legal: NDArray[np.int64]) -> "StageTable":
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
