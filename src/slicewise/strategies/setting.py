"""What a strategy is asked for, and what it answers: one interface for all of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.tuning import Tuning
from slicewise.cost.prediction import Prediction
from slicewise.cost.training import WEIGHT_BYTES, Training
from slicewise.errors import InfeasibleError
from slicewise.factors import divisors
from slicewise.partition.choices import Floats
from slicewise.partition.steps import Op
from slicewise.strategies.links import Links
from slicewise.strategies.profile import Profile, Seconds
from slicewise.terms import MOVING_GROUPS, Group

STATISTICS_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One iteration, by the groups of terms.py: what it waits for. Compute includes the weight update."""

    compute_s: float
    update_s: float = 0.0  # of compute_s
    backward_s: float = 0.0  # of compute_s: what gradient exchange can hide behind
    gradient_s: float = 0.0
    gradient_items: float = 0.0  # of the weights whose gradients are exchanged
    layerwise_s: float = 0.0
    halo_s: float = 0.0
    p2p_s: float = 0.0
    memory_bytes: float = 0.0
    split: str = ""  # what the strategy chose: p1 x p2, cuts of space, stages
    plan: Prediction | None = None  # of the plan that this is, where it is one

    @property
    def communication_s(self) -> float:
        return sum(self.seconds(group) for group in MOVING_GROUPS)

    @property
    def iteration_s(self) -> float:
        return self.compute_s + self.communication_s

    def seconds(self, group: Group) -> float:
        seconds: float = getattr(self, f"{group}_s")
        return seconds

    def stretched(self, factor: float) -> "Terms":
        """All communication takes `factor` times as long."""
        if factor == 1:
            return self
        longer: dict[str, Any] = {f"{group}_s": factor * self.seconds(group) for group in MOVING_GROUPS}
        return replace(self, **longer)

    def overlapped(self, overlap: float, bucket_items: int) -> "Terms":
        """Gradient exchange runs beside backward, as far as that lasts; `overlap` of what is hidden is really free.

        The bucket that fills last has no backward left beside it.
        """
        last = min(1.0, bucket_items / max(1.0, self.gradient_items))
        hidden_s = min((1 - last) * self.gradient_s, self.backward_s)
        return replace(self, gradient_s=self.gradient_s - overlap * hidden_s)


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """A network with its batch on some devices of a cluster."""

    profile: Profile
    links: Links
    devices: int
    batch: int
    tuning: Tuning
    split: tuple[int, int] | None = None  # of hybrids: p1 groups of p2

    @property
    def training(self) -> Training:
        return self.profile.training

    @property
    def item_bytes(self) -> int:
        """delta, of activations."""
        return self.training.item_bytes

    @property
    def slowdown(self) -> float:
        """Ranks that share a core take turns."""
        cores = self.profile.cluster.cores
        return max(1.0, self.devices / cores) if cores else 1.0

    @cached_property
    def _waits(self) -> float:
        """Steps are as long as those of the slowest device: (1 + straggling log2 p) times one device's. A network that
        was fitted has a pace of its own, unless its step was measured.
        """
        cluster = self.profile.cluster
        told = cluster.measured is not None or self.profile.given
        pace = 1.0 if told else self.tuning.pace(self.profile.graph.name)
        return self.slowdown * pace * (1 + self.links.cluster.straggling * log2(self.devices))

    def seconds(self, samples: float) -> Seconds:
        """FW and BW of whole layers for `samples`."""
        found = self.profile.seconds(samples)
        return found if self._waits == 1 else Seconds(found.forward * self._waits, found.backward * self._waits)

    def cut_seconds(self, kind: str, samples: int, parts: int) -> Seconds:
        """FW and BW of one of `parts` shards of each layer: the share of the whole that the tuning says, or what as few
        of the samples take. Either is at least 1/p: being cut makes nothing cheaper.
        """
        if kind not in self.tuning.fixed_compute:
            return self.seconds(samples / parts)
        whole, share = self.seconds(samples), self.tuning.shard_share(kind, parts)
        return Seconds(share * whole.forward, share * whole.backward)

    @property
    def update_s(self) -> Floats:
        return self.profile.update_s * self.slowdown

    def all_reduce_s(
        self, items: float, count: int, stride: int = 1, *, idle: int = 1, messages: int = 1, staged: bool = False
    ) -> float:
        """2 (p - 1) (alpha + w delta beta / p), of weight gradients; `staged`: through the host, if the tuning says."""
        line = self.links.ring("gradient", count, stride, idle)
        s_per_byte, rate = line.s_per_byte, self.tuning.staged_bytes_per_s
        if staged and rate is not None:
            s_per_byte = max(s_per_byte, (count - 1) / count / rate)
        return 2 * (messages * line.latency_s + items * WEIGHT_BYTES * s_per_byte) if items else 0.0

    @property
    def hybrid_messages(self) -> int:
        """In how many messages hybrids exchange gradients between groups."""
        return int((self.profile.w[self.profile.products] > 0).sum()) if self.tuning.layer_messages else 1

    def layerwise_s(self, items: Floats, count: int) -> float:
        """3 (p - 1) S(alpha + y delta beta / p): one gather and one reduction per layer that has items."""
        messages = items[items > 0] * self.item_bytes
        gather, reduce = self.links.ring(Op.ALL_GATHER, count), self.links.ring(Op.ALL_REDUCE, count)
        return float(
            len(messages) * (gather.latency_s + 2 * reduce.latency_s)
            + messages.sum() * (gather.s_per_byte + 2 * reduce.s_per_byte)
        )

    def gather_s(self, items: Floats, count: int) -> Floats:
        """(p - 1) (alpha + y delta beta / p), of every entry; 0 where there is nothing to gather."""
        line = self.links.ring(Op.ALL_GATHER, count)
        return np.where(items > 0, line.latency_s + items * self.item_bytes * line.s_per_byte, 0.0)

    def statistics_s(self, items: Floats, count: int, stride: int = 1) -> float:
        """Means and deviations of norms, gathered forward and summed backward (exact batch norm only)."""
        messages = 2 * STATISTICS_BYTES * items[items > 0]
        gather = self.links.ring(Op.ALL_GATHER, count, stride)
        reduce = self.links.ring(Op.ALL_REDUCE, count, stride)
        return float(
            len(messages) * (gather.latency_s + 2 * reduce.latency_s)
            + messages.sum() * (count * gather.s_per_byte + 2 * reduce.s_per_byte)
        )

    def sharded(self, strategy: str, cut: NDArray[np.bool_], samples: int, count: int) -> Terms:
        """Compute, weight update and memory where `count` devices share the layers of `cut` and repeat the others."""
        whole, part = self.seconds(samples), self.cut_seconds(strategy, samples, count)
        held = np.where(cut, 1 / count, 1.0)
        update_s = float((self.update_s * held).sum())
        return Terms(
            compute_s=float(np.where(cut, part.both, whole.both).sum()) + update_s,
            update_s=update_s,
            backward_s=float(np.where(cut, part.backward, whole.backward).sum()),
            memory_bytes=self.memory_bytes(samples, held),
        )

    def memory_bytes(self, samples: float | Floats, weights: float | Floats) -> float:
        """M(B, w) = delta (S(B k) + max B (x + y)) + 4 (2 + o) S(w), given each layer's samples and the share of its
        weights that a device holds.
        """
        return float(np.sum(self.layer_bytes(samples, weights)) + self.passing_bytes(samples).max())

    def layer_bytes(self, samples: float | Floats, weights: float | Floats) -> Floats:
        """What stays, layer by layer: k, what backward reads again; w, its gradient and the o items of the optimizer.

        A narrow dtype adds a copy of the weights.
        """
        profile, training = self.profile, self.training
        narrow = training.item_bytes if training.item_bytes < WEIGHT_BYTES else 0
        per_weight = WEIGHT_BYTES * (2 + training.state_items) + narrow
        activations = training.item_bytes * profile.kept * samples
        layers: Floats = self.tuning.memory_reuse * (activations + per_weight * profile.w * weights)
        return layers

    def passing_bytes(self, samples: float | Floats) -> Floats:
        """What a layer needs while it runs, or while its gradients are made: as much as x and y."""
        passing: Floats = self.tuning.memory_reuse * self.item_bytes * self.profile.touched * samples
        return passing

    def splits(self) -> Iterator[tuple[int, int]]:
        """All p1 x p2 with both above 1, or the one asked for."""
        if self.split is not None:
            p1, p2 = self.split
            if p1 * p2 != self.devices or min(p1, p2) < 2:
                raise InfeasibleError(f"split: {p1}x{p2} does not make {self.devices} devices, both above 1")
            yield p1, p2
            return
        found = [(self.devices // p2, p2) for p2 in divisors(self.devices) if 1 < p2 < self.devices]
        if not found:
            raise InfeasibleError(f"devices: {self.devices} is no p1 x p2 with both above 1")
        yield from found

    @cached_property
    def all_weights(self) -> float:
        return float(self.profile.w.sum())


def every_possible(
    splits: Iterable[tuple[int, int]], priced: Callable[[tuple[int, int]], Iterable[Terms]]
) -> Iterator[Terms]:
    """All that some split makes possible; if none does, why the first is not."""
    reasons, any_possible = [], False
    for split in splits:
        try:
            for terms in priced(split):
                any_possible = True
                yield terms
        except InfeasibleError as error:
            reasons.append(error)
    if reasons and not any_possible:
        raise reasons[0]


def parts(whole: int, count: int) -> int:
    """The largest of `count` parts."""
    return -(-whole // count)
