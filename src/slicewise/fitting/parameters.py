"""The few numbers of a machine and its framework that runs can teach: where each stands in a cluster, and how far the
preset is trusted.

Every parameter is positive and moves on a logarithmic scale. `spread` is the standard deviation of the preset's
logarithm: 0.3 says that a third more or less would be no surprise. It stands in for the runs that nobody has made.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from slicewise.cluster.cluster import Cluster, Link, Tier
from slicewise.strategy import STRATEGIES

RATE_SPREAD = 0.5  # bandwidths: protocols, packing and sharing that no data sheet has
LATENCY_SPREAD = 0.3
MEMORY_SPREAD = 0.3  # single-GPU presets are near published training
# of a device's arithmetic, and of one network beside the others: with a sigma of 0.1, a run alone can say 4 times
COMPUTE_SPREAD, NETWORK_SPREAD = 0.5, 0.4
STAGED_SPREAD = 0.7
STRATEGY_SPREAD = 0.2  # strategies differ less from each other than machines do
FIXED_SPREAD = 0.5
FIXED_GUESS = 0.5  # where nothing is known of how shards keep their efficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    unit: str  # of `value`: s, B/s, or nothing
    value: float  # the preset's
    spread: float
    put: Callable[[Cluster, float], Cluster]
    most: float = float("inf")
    relative: bool = False  # to the others of its kind: their mean is that of the device, and does not move


def parameters(cluster: Cluster, strategies: tuple[str, ...], networks: tuple[str, ...] = ()) -> Iterator[Parameter]:
    """All that runs of these strategies could speak about; `networks` have a pace of their own."""
    yield Parameter(
        name="compute efficiency",
        unit="",
        value=cluster.device.efficiency["conv"],
        spread=COMPUTE_SPREAD,
        put=_with_efficiency,
    )
    yield Parameter(
        name="memory rate",
        unit="B/s",
        value=cluster.device.memory_bytes_per_s,
        spread=MEMORY_SPREAD,
        put=lambda on, value: replace(on, device=replace(on.device, memory_bytes_per_s=value)),
    )
    tuning = cluster.tuning
    for network in networks:
        yield Parameter(
            name=f"compute of {network}",
            unit="",
            value=tuning.pace(network),
            spread=NETWORK_SPREAD,
            put=_with_pace(network),
            relative=True,
        )
    yield Parameter(
        name="compute that stays in shards",
        unit="",
        value=tuning.fixed_compute.get("filter", FIXED_GUESS),
        spread=FIXED_SPREAD,
        put=_with_fixed_compute,
    )
    for tier in cluster.tiers:
        yield Parameter(
            name=f"{tier.name} latency",
            unit="s",
            value=tier.latency_s,
            spread=LATENCY_SPREAD,
            put=_on_tier(tier.name, _with_latency),
        )
        yield Parameter(
            name=f"{tier.name} bandwidth",
            unit="B/s",
            value=tier.bytes_per_s,
            spread=RATE_SPREAD,
            put=_on_tier(tier.name, _with_bandwidth),
        )
        yield Parameter(
            name=f"{tier.name} bandwidth, gradients",
            unit="B/s",
            value=tier.link("gradient").bytes_per_s,
            spread=RATE_SPREAD,
            put=_on_tier(tier.name, _with_gradient_bandwidth),
        )
    if tuning.staged_bytes_per_s is not None:
        yield Parameter(
            name="bandwidth through the host",
            unit="B/s",
            value=tuning.staged_bytes_per_s,
            spread=STAGED_SPREAD,
            put=lambda on, value: replace(on, tuning=replace(on.tuning, staged_bytes_per_s=value)),
        )
    if tuning.halo_latency_s is not None:
        yield Parameter(
            name="halo start-up",
            unit="s",
            value=tuning.halo_latency_s,
            spread=LATENCY_SPREAD,
            put=lambda on, value: replace(on, tuning=replace(on.tuning, halo_latency_s=value)),
        )
    if tuning.overlap:
        yield Parameter(
            name="gradient exchange that does not hide",
            unit="",
            value=max(1 - tuning.overlap, 0.05),
            spread=RATE_SPREAD,
            put=lambda on, value: replace(on, tuning=replace(on.tuning, overlap=1 - min(value, 1.0))),
            most=1.0,
        )
    for strategy in strategies:
        if not STRATEGIES[strategy].plain:  # plain ones set the pace that the others are compared with
            yield Parameter(
                name=f"communication of {strategy}",
                unit="",
                value=tuning.stretch(strategy),
                spread=STRATEGY_SPREAD,
                put=_with_stretch(strategy),
            )


def _with_efficiency(on: Cluster, value: float) -> Cluster:
    """All other kinds of layers keep their ratio to it."""
    factor = value / on.device.efficiency["conv"]
    scaled = {name: factor * share for name, share in on.device.efficiency.items()}
    kernels = on.device.kernels and on.device.kernels.scaled(factor)
    return replace(on, device=replace(on.device, efficiency=scaled, kernels=kernels))


def _with_fixed_compute(on: Cluster, value: float) -> Cluster:
    fixed = {**on.tuning.fixed_compute, "filter": value, "channel": value}
    return replace(on, tuning=replace(on.tuning, fixed_compute=fixed))


def _with_pace(network: str) -> Callable[[Cluster, float], Cluster]:
    def put(on: Cluster, value: float) -> Cluster:
        return replace(on, tuning=replace(on.tuning, compute={**on.tuning.compute, network: value}))

    return put


def _with_stretch(strategy: str) -> Callable[[Cluster, float], Cluster]:
    def put(on: Cluster, value: float) -> Cluster:
        return replace(on, tuning=replace(on.tuning, communication={**on.tuning.communication, strategy: value}))

    return put


def _on_tier(name: str, change: Callable[[Tier, float], Tier]) -> Callable[[Cluster, float], Cluster]:
    def put(on: Cluster, value: float) -> Cluster:
        return replace(on, tiers=tuple(change(tier, value) if tier.name == name else tier for tier in on.tiers))

    return put


def _with_latency(tier: Tier, value: float) -> Tier:
    links = {
        name: Link(value * link.latency_s / tier.latency_s, link.bytes_per_s) for name, link in _paces(tier).items()
    }
    return replace(tier, latency_s=value, collectives=links)


def _with_bandwidth(tier: Tier, value: float) -> Tier:
    """Of everything but gradients; collectives keep their ratio to each other."""
    factor = value / tier.bytes_per_s
    links = {
        name: Link(link.latency_s, link.bytes_per_s if name == "gradient" else factor * link.bytes_per_s)
        for name, link in _paces(tier).items()
    }
    return replace(tier, bytes_per_s=value, collectives=links)


def _with_gradient_bandwidth(tier: Tier, value: float) -> Tier:
    links = _paces(tier)
    return replace(tier, collectives={**links, "gradient": Link(links["gradient"].latency_s, value)})


def _paces(tier: Tier) -> Mapping[str, Link]:
    """The collectives that have a pace of their own, gradients always among them."""
    return {**tier.collectives, "gradient": tier.link("gradient")}
