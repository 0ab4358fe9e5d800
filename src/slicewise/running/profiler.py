"""What this machine really does: compute and collectives, measured on the ranks that will run.

All ranks measure at the same time: they share memory bandwidth when they train, so they must when they are timed.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np
import torch
import torch.distributed as dist

from slicewise.cluster.cluster import Cluster, Device, Link, Tier
from slicewise.cluster.freshness import here
from slicewise.cluster.lines import BACKWARD
from slicewise.errors import RequestError
from slicewise.partition.steps import Op
from slicewise.running.checkup import host_memory_bytes
from slicewise.running.line_fit import Point, fitted_lines, on_line_s
from slicewise.running.link_fit import fitted_link
from slicewise.running.probes import all_points
from slicewise.running.reference import reference_s
from slicewise.running.stopwatch import alternated_s, timed_s
from slicewise.runtime.devices import synchronize
from slicewise.runtime.exchange import Exchange
from slicewise.runtime.hosts import hosts_of_ranks
from slicewise.runtime.moves import gathered, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How long to look."""

    repeats: int
    layer_rounds: int
    scales: tuple[int, ...]  # of the batches of layers
    message_bytes: tuple[int, ...]


QUICK = Care(repeats=5, layer_rounds=3, scales=(1,), message_bytes=(4 * 2**10, 256 * 2**10, 4 * 2**20, 16 * 2**20))
THOROUGH = Care(
    repeats=15,
    layer_rounds=9,
    scales=(1, 4),
    message_bytes=(4 * 2**10, 64 * 2**10, 256 * 2**10, 2**20, 4 * 2**20, 16 * 2**20, 64 * 2**20),
)
_OVERLAP_ROUNDS = 4  # times as often as others: a difference of three times
_BUCKET_BYTES = 2**24  # larger ones take long on slow links
_SMALL_BYTES, _SMALL_ROUNDS = 2**18, 4  # latencies are soon measured, and differ most
ITEM_BYTES = 4
_COLUMNS = 256  # of a part that is packed: slices of channels or of the rows of an image are runs of about a kilobyte
_FAMILIES = {"conv": "window", "conv3d": "volume", "linear": "linear"}  # what a roofline tells apart, and its probes


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The machine, and the points that its lines go through."""

    cluster: Cluster
    points: tuple[Point, ...]

    def drawn(self) -> dict[str, list[tuple[float, float]]]:
        """Seconds on the line and as measured, by kind and direction."""
        lines = self.cluster.device.layers or {}
        rows: dict[str, list[tuple[float, float]]] = {}
        for point in self.points:
            pair = on_line_s(lines[point.kind][point.direction], point), point.seconds
            rows.setdefault(f"{point.kind} {point.direction}".replace("_", " "), []).append(pair)
        return rows


def measure_cluster(device: torch.device, care: Care) -> Calibration:
    """The machine under this process group; every rank returns the same."""
    with device:
        return _measure(device, care)


def all_reduce_seconds(device: torch.device, message_bytes: Sequence[int], repeats: int) -> dict[int, float]:
    """Message bytes -> seconds of an all-reduce over all ranks, as the fit sees them."""
    with device:
        world = Members(size=dist.get_world_size())
        return {
            size: _after_compute(partial(_all_reduce, size // ITEM_BYTES), world, repeats) for size in message_bytes
        }


def _measure(device: torch.device, care: Care) -> Calibration:
    hosts, per_host = _placed()
    neighbours = _neighbours(hosts, per_host)
    references_s = [reference_s()]  # once more after each part: a machine is not the same all the while
    points = all_points(device, care.layer_rounds, care.scales)
    references_s.append(reference_s())
    tiers = tuple(_tier(name, members, care) for name, members in neighbours.items())
    references_s.append(reference_s())
    rates = {name: rate for family, kind in _FAMILIES.items() for name, rate in _rates(family, kind, points).items()}
    peak = max(rates.values())
    memory_bytes_per_s = _memory_rate(care)
    on_gpu = device.type == "cuda"
    described = Device(
        name=torch.cuda.get_device_name() if on_gpu else f"CPU core x{torch.get_num_threads()}",
        peak_flops_per_s=peak,
        memory_bytes_per_s=memory_bytes_per_s,
        memory_bytes=torch.cuda.mem_get_info()[1] if on_gpu else host_memory_bytes() // per_host,
        kernel_s=_overhead_s(care),
        efficiency={name: rate / peak for name, rate in rates.items()},
        layers=fitted_lines(points),
    )
    cluster = Cluster(
        name="local",
        device=described,
        tiers=tiers,
        overlap=_overlap(care),
        # where the ranks measured shared cores already, more of them share no further
        cores=hosts * max(os.cpu_count() or 1, per_host) if not on_gpu else None,
        origin="fitted",
        measured_on=here(dist.get_world_size(), described.name if on_gpu else None),
        reference_s=fmean(references_s),
    )
    return Calibration(cluster=cluster, points=tuple(points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Ranks that exchange messages: a process group, or the world. `inside`: whether this rank is one of them."""

    group: dist.ProcessGroup | None = None
    size: int
    inside: bool = True


def _neighbours(hosts: int, per_host: int) -> dict[str, Members]:
    """Tier -> who measures it, outermost first.

    2 hosts x 2 ranks     0 1 | 2 3      between: 0 2, the others wait;  within: 0 1 and 2 3 at the same time
    """
    ranks = dist.get_world_size()
    if hosts == 1 or per_host == 1:
        return {"local" if hosts == 1 else "inter": Members(size=ranks)}
    leaders = list(range(0, ranks, per_host))
    between = dist.new_group(leaders)
    within = [dist.new_group(list(range(leader, leader + per_host))) for leader in leaders]
    return {
        "inter": Members(group=between, size=hosts, inside=dist.get_rank() in leaders),
        "intra": Members(group=within[dist.get_rank() // per_host], size=per_host),
    }


def _placed() -> tuple[int, int]:
    """Hosts, and ranks on each."""
    hosts = hosts_of_ranks()
    count, ranks = max(hosts) + 1, len(hosts)
    if ranks % count or hosts != [rank // (ranks // count) for rank in range(ranks)]:
        listed = ", ".join(map(str, hosts[:16])) + (", ..." if ranks > 16 else "")
        raise RequestError(
            "ranks must be numbered host by host, as many on each, as torchrun does "
            f"(got hosts {listed} for ranks 0 to {ranks - 1})"
        )
    return count, ranks // count


def _tier(name: str, members: Members, care: Care) -> Tier:
    """Every rank returns the same. What is measured on several hosts at once counts as the slowest has it.

    By the functions that layers call: packing and unpacking are part of every exchange.
    """
    links = {str(name): _fit(probe, members, care) for name, probe in PROBES.items()}
    reduced = links[Op.ALL_REDUCE.value]
    return Tier(
        name=name,
        size=members.size,
        latency_s=reduced.latency_s,
        bytes_per_s=reduced.bytes_per_s,
        collectives=links,
    )


def _rates(family: str, kind: str, points: Sequence[Point]) -> dict[str, float]:
    """FLOP/s of all probes together, so that large layers weigh more, as in a network. Backward is two such passes."""

    def rate(directions: Sequence[str]) -> float:
        chosen = [point for point in points if point.kind == kind and point.direction in directions]
        return sum(point.flops for point in chosen) / sum(point.seconds for point in chosen)

    return {family: rate(("forward",)), f"{family}_backward": rate(BACKWARD)}


def _memory_rate(care: Care) -> float:
    """Bytes per second of an element-wise layer, read and written."""
    x = torch.randn(4 * 2**20)
    return 2 * x.numel() * x.element_size() / timed_s(lambda: torch.relu(x), care.repeats)


def _overhead_s(care: Care) -> float:
    """What calling any layer costs, however small."""
    x = torch.randn(8, requires_grad=True)
    return timed_s(lambda: torch.relu(x).sum().backward(), care.repeats) / 4


def _all_reduce(items: int, members: Members) -> Callable[[], object]:
    x = torch.ones(items)
    return lambda: total(x, members.group)


def _bucket(items: int, members: Members) -> Callable[[], object]:
    """Gradients are summed where they lie; zeros stay zeros."""
    x = torch.zeros(items)
    return lambda: dist.all_reduce(x, group=members.group)


def _all_gather(items: int, members: Members) -> Callable[[], object]:
    x = torch.ones(_rows(items, members), _COLUMNS)
    return lambda: gathered(x, 1, members.size, members.group)


def _all_to_all(items: int, members: Members) -> Callable[[], object]:
    """Rows that become columns."""
    ranks, rows = members.size, _rows(items, members)
    own = [((rank * rows, (rank + 1) * rows), (0, ranks * _COLUMNS)) for rank in range(ranks)]
    needed = [((0, ranks * rows), (rank * _COLUMNS, (rank + 1) * _COLUMNS)) for rank in range(ranks)]
    exchange = Exchange.compile(own=own, needed=needed, me=dist.get_rank(members.group), group=members.group)
    x = torch.ones(rows, ranks * _COLUMNS)
    return lambda: exchange.run(x)


def _rows(items: int, members: Members) -> int:
    """Of `items` in as many rows of columns as there are members."""
    return max(items // (members.size * _COLUMNS), 1)


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """A collective of `make(items, members)()`: time = latencies * (p-1) * alpha + moved_bytes / beta."""

    make: Callable[[int, Members], Callable[[], object]]
    latencies: int  # per other member
    passes: int  # of the message through each port, but for a rank's own part

    def moved_bytes(self, message_bytes: int, ranks: int) -> float:
        return self.passes * (ranks - 1) / ranks * message_bytes


PROBES: dict[str, LinkProbe] = {
    Op.ALL_REDUCE: LinkProbe(_all_reduce, latencies=2, passes=2),
    Op.ALL_GATHER: LinkProbe(_all_gather, latencies=1, passes=1),
    Op.ALL_TO_ALL: LinkProbe(_all_to_all, latencies=1, passes=1),
    "bucket": LinkProbe(_bucket, latencies=2, passes=2),
}


def _fit(probe: LinkProbe, members: Members, care: Care) -> Link:
    often = [care.repeats * (_SMALL_ROUNDS if size <= _SMALL_BYTES else 1) for size in care.message_bytes]
    seconds = [
        _after_compute(partial(probe.make, size // ITEM_BYTES), members, repeats)
        for size, repeats in zip(care.message_bytes, often, strict=True)
    ]
    once = fitted_link([probe.moved_bytes(size, members.size) for size in care.message_bytes], seconds)
    return replace(once, latency_s=once.latency_s / (probe.latencies * (members.size - 1)))


def _overlap(care: Care) -> float:
    """Which share of a gradient bucket hides behind compute that takes longer, run together and apart."""
    x, weight = torch.randn(512, 2048), torch.randn(2048, 2048)
    bucket = torch.zeros(_BUCKET_BYTES // ITEM_BYTES)

    def together() -> None:
        work = dist.all_reduce(bucket, async_op=True)
        x @ weight
        work.wait()

    apart = (lambda: x @ weight, lambda: dist.all_reduce(bucket))
    compute_s, reduce_s, both_s = alternated_s([*apart, together], _OVERLAP_ROUNDS * care.repeats)
    return float(np.clip((compute_s + reduce_s - both_s) / min(compute_s, reduce_s), 0.0, 1.0))


def _after_compute(make: Callable[[Members], Callable[[], object]], members: Members, repeats: int) -> float:
    """A collective as a training step meets it: caches and threads busy with a layer before it.

    As in `slicewise run`, it takes as long as for the rank that comes last: waiting is the other's compute.
    """
    median = torch.zeros((), dtype=torch.float64)
    if members.inside:
        collective = make(members)
        a = torch.randn(512, 512)
        seconds = []
        for _ in range(repeats + 1):
            a @ a  # some milliseconds on a CPU core
            synchronize()
            start_s = time.perf_counter()
            collective()
            synchronize()
            seconds.append(time.perf_counter() - start_s)
        shortest = torch.tensor(seconds[1:], dtype=torch.float64)
        dist.all_reduce(shortest, dist.ReduceOp.MIN, group=members.group)
        median = shortest.quantile(0.5)
    dist.all_reduce(median, dist.ReduceOp.MAX)
    return float(median)
