"""What a framework on a machine does to the closed forms of the strategies; neutral where nothing is known.

Part of a cluster's description (`[tuning]`), written by hand or by `slicewise calibrate --from`. Latency and bandwidth
per tier are not here: they are the tiers' own (`Tier.collectives`), as for every other model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from slicewise.cluster.cluster_file import TuningFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Neutral: the published closed forms."""

    # per way of sharding, the share of a layer's compute that stays however thin it is cut: f + (1 - f) / p
    fixed_compute: Mapping[str, float] = field(default_factory=dict)
    # per network, the seconds of its layers over what the device says
    compute: Mapping[str, float] = field(default_factory=dict)
    # per strategy, the seconds of its communication over those of the closed form
    communication: Mapping[str, float] = field(default_factory=dict)
    # collectives run one ring through all their devices: p - 1 steps at the slowest link, one flow per link;
    # otherwise tier by tier
    flat_rings: bool = False
    # hybrids exchange the gradients of every matrix product by themselves: one latency each, not one in all
    layer_messages: bool = False
    # whether filter and channel cut linear layers; if not, every device has them whole, and all-reduces their gradients
    split_linear: bool = True
    # gradients of layers that filter and channel leave whole, and those between the leaders of spatial groups, go
    # through the host at this rate
    staged_bytes_per_s: float | None = None
    halo_latency_s: float | None = None  # of one halo message, where it does not go the way of other messages
    # the share of gradient exchange that hides behind backward, unless the request says; None: the cluster's where the
    # software is tuned, nothing elsewhere
    overlap: float | None = None
    memory_reuse: float = 1.0  # gamma: bytes really held over bytes counted
    margin: float | None = None  # relative uncertainty of an iteration that the fit left
    # what was fitted: of anything else, `margin` is not all that is uncertain. Empty: a file does not say
    networks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    most_devices: int | None = None

    @property
    def describes_framework(self) -> bool:
        """Whether somebody said how a framework differs from the published closed forms."""
        return self != NEUTRAL

    def shard_share(self, kind: str, parts: int) -> float:
        """What is left of a layer's compute on each of `parts` devices."""
        fixed = self.fixed_compute.get(kind, 0.0)
        return fixed + (1 - fixed) / parts

    def pace(self, network: str) -> float:
        """How many times what the device says a network's layers take."""
        return self.compute.get(network, 1.0)

    def stretch(self, strategy: str) -> float:
        """How many times the closed form a strategy's communication takes."""
        return self.communication.get(strategy, 1.0)


NEUTRAL = Tuning()


def read_tuning(fields: TuningFields) -> Tuning:
    """Of `[tuning]` of a cluster file."""
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in to_builtins(fields).items()
    }
    return Tuning(**said)
