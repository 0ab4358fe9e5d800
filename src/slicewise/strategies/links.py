"""alpha and beta of a group of devices: where its members sit, and who shares their links.

Ranks fill the machine from the innermost tier outwards, so a group follows from how many members it has and how far
apart they are. No tier's size has to divide anything: racks of 17 nodes are fine here.

    (p - 1) (alpha + m beta / p)          one tier: a ring, every device passes on m / p bytes
    sum over t of (s_t - 1) alpha_t + (s_t - 1) / (s_t s_(t+1) ...) m phi_t beta_t     several: s_t members along tier t

phi_t is the contention: flows of one member of tier t over the ports it has, at least 1. One ring through all devices
enters and leaves a node once. It visits the nodes in any order, so from each node of a rack it may leave the rack.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, prod

from slicewise.cluster.cluster import Cluster
from slicewise.cost.network import AlphaBeta
from slicewise.partition.steps import Op


@dataclass(frozen=True, eq=False)
class Links:
    """Of `devices` devices of a cluster, all communicating at once."""

    machine: Cluster
    devices: int
    flat: bool = False  # one ring through all members, at the slowest link that it crosses

    @cached_property
    def cluster(self) -> Cluster:
        """Racks that do not divide are a tier here."""
        return self.machine.unfolded

    @cached_property
    def _below(self) -> tuple[int, ...]:
        """Devices in one member of each tier, of those in use."""
        sizes = [tier.size for tier in self.cluster.tiers]
        return tuple(min(self.devices, prod(sizes[tier + 1 :])) for tier in range(len(sizes)))

    def members(self, count: int, stride: int = 1) -> tuple[int, ...]:
        """Of a group along each tier, outermost first: 64 on nodes of 4 are (16, 4), every fourth of them (16, 1)."""
        found: list[int] = []
        left, step = count, stride
        for position in reversed(range(len(self.cluster.tiers))):
            size = self.cluster.tiers[position].size
            here = left if position == 0 else min(left, max(1, ceil(size / step)))
            found.insert(0, here)
            left, step = ceil(left / here), max(1, ceil(step / size))
        return tuple(found)

    @lru_cache(maxsize=1024)  # noqa: B019 (as long-lived as the projection)
    def ring(self, operation: str, count: int, stride: int = 1, idle: int = 1) -> AlphaBeta:
        """All-gather of a message over a group; one in `idle` devices takes part."""
        if self.flat:
            step = self._step(operation, count, stride, idle, len(self.cluster.tiers) - 2)
            return AlphaBeta((count - 1) * step.latency_s, (count - 1) / count * step.s_per_byte)
        latency_s = s_per_byte = 0.0
        sizes = self.members(count, stride)
        for tier, size in enumerate(sizes):
            link = self.cluster.tiers[tier].link(operation)
            latency_s += (size - 1) * link.latency_s
            share = (size - 1) / prod(sizes[tier:])
            s_per_byte += share * self._phi(tier, self._below[tier] / idle) / link.bytes_per_s
        return AlphaBeta(latency_s, s_per_byte)

    @lru_cache(maxsize=1024)  # noqa: B019
    def neighbour(self, count: int, stride: int = 1, idle: int = 1, operation: str = Op.ALL_TO_ALL) -> AlphaBeta:
        """One message to the next of a row of devices, over the slowest link that any of them has to cross.

        Of the devices in a node only those at its border send across.
        """
        return self._step(operation, count, stride, idle, 0)

    def _step(self, operation: str, count: int, stride: int, idle: int, ordered: int) -> AlphaBeta:
        """The same in a row that follows the machine only inside the members of tier `ordered`."""
        latency_s = s_per_byte = 0.0
        sizes = self.members(count, stride)
        for tier, size in enumerate(sizes):
            if size > 1:
                link = self.cluster.tiers[tier].link(operation)
                flows = self._below[tier] / prod(sizes[max(tier, ordered) + 1 :]) / idle
                latency_s = max(latency_s, link.latency_s)
                s_per_byte = max(s_per_byte, self._phi(tier, flows) / link.bytes_per_s)
        return AlphaBeta(latency_s, s_per_byte)

    def _phi(self, tier: int, flows: float) -> float:
        return max(1.0, flows / self.cluster.tiers[tier].ports)
