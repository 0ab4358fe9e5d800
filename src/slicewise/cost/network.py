"""Seconds and bytes of collectives on a cluster: alpha-beta per tier, hierarchical where a group spans tiers.

A group of p ranks has s_t members along tier t, p the product. The bandwidth of a tier is what is left for one device
when every device uses the tier at once: all groups of a layer work at the same time. Where the members of the
outermost tier stand in racks, a group pays for the racks that its members stand in as for one tier more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.racks import RackSpan, span
from slicewise.partition.choices import Floats, axes_in
from slicewise.partition.steps import Op


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """latency + bytes * rate, of a collective over one group."""

    latency_s: float
    s_per_byte: float

    def seconds(self, message_bytes: float) -> float:
        return self.latency_s + message_bytes * self.s_per_byte


@dataclass(frozen=True, slots=True)
class AlphaBetas:
    """The latencies and rates of every set of axes, by mask."""

    latency_s: Floats
    s_per_byte: Floats


@dataclass(frozen=True, eq=False)  # itself and no other: what is known of one is kept under it
class Network:
    """The collectives of one cluster. Messages are bytes of the whole tensor that the group reduces or gathers."""

    cluster: Cluster

    @lru_cache(maxsize=4096)  # noqa: B019 (a network lives as long as its planning)
    def group_sizes(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Members along each tier, outermost first."""
        mesh = self.cluster.mesh
        return tuple(
            prod(mesh.sizes[axis] for axis in axes if mesh.axes[axis].tier == tier)
            for tier in range(len(self.cluster.tiers))
        )

    @lru_cache(maxsize=4096)  # noqa: B019
    def all_gather(self, axes: tuple[int, ...], operation: str = Op.ALL_GATHER) -> AlphaBeta:
        """Outermost tier first: (s_t - 1) messages of what a device holds by then, m / (s_t * inner sizes)."""
        latency_s = s_per_byte = 0.0
        sizes = self.group_sizes(axes)
        if (stand := self._span(axes)) is not None:
            racks = self.cluster.tiers[0].racks
            assert racks is not None
            sizes = (stand.in_rack, *sizes[1:])
            latency_s = (stand.racks - 1) * racks.link(operation).latency_s
            share = (stand.racks - 1) / (stand.racks * prod(sizes))
            s_per_byte = share / self.cluster.between_racks(operation, stand.sharing)
        for tier, size in enumerate(sizes):
            inner = prod(sizes[tier + 1 :])
            latency_s += (size - 1) * self.cluster.tiers[tier].link(operation).latency_s
            s_per_byte += (size - 1) / (size * inner) / self.cluster.bytes_per_s(tier, operation)
        return AlphaBeta(latency_s, s_per_byte)

    def all_reduce(self, axes: tuple[int, ...], operation: str = Op.ALL_REDUCE) -> AlphaBeta:
        """Reduce-scatter inwards-out, then all-gather outwards-in: twice the gather."""
        half = self.all_gather(axes, operation)
        return AlphaBeta(2 * half.latency_s, 2 * half.s_per_byte)

    def bucket(self, axes: tuple[int, ...]) -> AlphaBeta:
        """An all-reduce of gradients, where they lie."""
        return self.all_reduce(axes, "bucket")

    @lru_cache(maxsize=4096)  # noqa: B019
    def all_to_all_latency_s(self, axes: tuple[int, ...]) -> float:
        """One message per peer, at the latency of the outermost tier that lies between."""
        latency_s, inner = 0.0, 1
        sizes = self.group_sizes(axes)
        for tier in reversed(range(len(sizes))):
            latency_s += (sizes[tier] - 1) * inner * self.cluster.tiers[tier].link(Op.ALL_TO_ALL).latency_s
            inner *= sizes[tier]
        if (stand := self._span(axes)) is not None:
            outer = self.cluster.tiers[0]
            assert outer.racks is not None
            further_s = outer.racks.link(Op.ALL_TO_ALL).latency_s - outer.link(Op.ALL_TO_ALL).latency_s
            latency_s += stand.outside * prod(sizes[1:]) * further_s
        return latency_s

    @lru_cache(maxsize=4096)  # noqa: B019
    def all_to_all_s_per_byte(self, tier: int) -> float:
        """Between members that stand in racks, as if all of them sent out of theirs."""
        racks = self.cluster.tiers[0].racks
        if tier == 0 and racks is not None:
            return 1 / self.cluster.between_racks(Op.ALL_TO_ALL, racks.size)
        return 1 / self.cluster.bytes_per_s(tier, Op.ALL_TO_ALL)

    def _span(self, axes: tuple[int, ...]) -> RackSpan | None:
        """Where the members of groups over these axes stand; None where that is in one rack."""
        racks, outer = self.cluster.tiers[0].racks, [axis for axis in self.cluster.mesh.axes if axis.tier == 0]
        along = tuple(axis for axis in axes if axis < len(outer))
        if racks is None or not along:
            return None
        found = span(tuple(axis.size for axis in outer), along, racks.size)
        return found if found.racks > 1 else None

    @cached_property
    def all_gather_lines(self) -> AlphaBetas:
        return self._lines(self.all_gather)

    @cached_property
    def all_reduce_lines(self) -> AlphaBetas:
        return self._lines(self.all_reduce)

    @cached_property
    def bucket_lines(self) -> AlphaBetas:
        return self._lines(self.bucket)

    @cached_property
    def all_to_all_latencies(self) -> Floats:
        return np.array([self.all_to_all_latency_s(axes_in(mask)) for mask in self._masks])

    @cached_property
    def hop_rates(self) -> Floats:
        """Seconds per byte from one rank to the next of a group, over the outermost tier that lies between any two."""
        axes = self.cluster.mesh.axes
        tiers = [axes[(mask & -mask).bit_length() - 1].tier for mask in self._masks if mask]
        return np.array([0.0, *map(self.all_to_all_s_per_byte, tiers)])

    @property
    def _masks(self) -> range:
        return range(1 << len(self.cluster.mesh.axes))

    def _lines(self, line_of: Callable[[tuple[int, ...]], AlphaBeta]) -> AlphaBetas:
        lines = [line_of(axes_in(mask)) for mask in self._masks]
        return AlphaBetas(np.array([line.latency_s for line in lines]), np.array([line.s_per_byte for line in lines]))
