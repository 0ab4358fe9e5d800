"""What this machine really does: compute and collectives, measured on the ranks that will run.

All ranks measure at the same time: they share memory bandwidth when they train, so they must when they are timed.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

import numpy as np
import torch
import torch.distributed as dist

from slicewise.cluster.cluster import Cluster, Device, Tier
from slicewise.cluster.freshness import here
from slicewise.cluster.lines import BACKWARD
from slicewise.errors import RequestError
from slicewise.partition.steps import Op
from slicewise.running.checkup import host_memory_bytes
from slicewise.running.line_fit import Point, fitted_lines, on_line_s
from slicewise.running.link_fit import FittedLink
from slicewise.running.link_probes import ITEM_BYTES, PROBES, Members, links, message_seconds, queue_s
from slicewise.running.pipeline_probe import PipelineProbe
from slicewise.running.probes import all_points
from slicewise.running.reference import reference_s
from slicewise.running.step_probe import StepProbe
from slicewise.running.stopwatch import alternated_s, timed_s
from slicewise.runtime.collectives import all_reduce
from slicewise.runtime.hosts import hosts_of_ranks
from slicewise.runtime.priority import as_usual, messages_first, starting


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
_FAMILIES = {"conv": "window", "conv3d": "volume", "linear": "linear"}  # what a roofline tells apart, and its probes


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The machine, and the points that its lines go through."""

    cluster: Cluster
    points: tuple[Point, ...]
    burst_bytes: Mapping[str, float]  # by tier: what passes much quicker than its links' rate

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
        seconds = message_seconds([PROBES[Op.ALL_REDUCE]], message_bytes, world, repeats)
        return dict(zip(message_bytes, seconds, strict=True))


def _measure(device: torch.device, care: Care) -> Calibration:
    hosts, per_host = _placed()
    messages_first()
    with starting():
        neighbours = _neighbours(hosts, per_host)
    step, pipeline, references_s = StepProbe(device), PipelineProbe(device), []

    def look() -> None:
        """Once more after each part: a machine is not the same all the while."""
        references_s.append(reference_s())
        step.look()
        with as_usual():
            pipeline.look()

    look()
    layers = all_points(device, care.layer_rounds, care.scales, between=look)
    found = {name: links(members, care.message_bytes, care.repeats) for name, members in neighbours.items()}
    tiers = tuple(_tier(name, neighbours[name], found[name], care) for name in neighbours)
    look()
    points = [*layers, step.point(), *pipeline.points()]
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
        reference_s=median(references_s),
    )
    bursts = {name: max(fitted.burst_bytes for fitted in own.values()) for name, own in found.items()}
    return Calibration(cluster=cluster, points=tuple(points), burst_bytes={k: v for k, v in bursts.items() if v})


def _neighbours(hosts: int, per_host: int) -> dict[str, Members]:
    """Tier -> who measures it, outermost first.

    2 hosts x 2 ranks     0 1 | 2 3      between: 0 2, the others wait;  within: 0 1 and 2 3 at the same time
    """
    ranks = dist.get_world_size()
    if hosts == 1 or per_host == 1:
        return {"local" if hosts == 1 else "inter": Members(size=ranks, gradients=dist.new_group())}
    leaders = list(range(0, ranks, per_host))
    between, between_gradients = dist.new_group(leaders), dist.new_group(leaders)
    hosted = [list(range(leader, leader + per_host)) for leader in leaders]
    within, within_gradients = ([dist.new_group(ranks) for ranks in hosted] for _ in range(2))
    host = dist.get_rank() // per_host
    inside = dist.get_rank() in leaders
    return {
        "inter": Members(group=between, size=hosts, inside=inside, gradients=between_gradients),
        "intra": Members(group=within[host], size=per_host, gradients=within_gradients[host]),
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


def _tier(name: str, members: Members, found: Mapping[str, FittedLink], care: Care) -> Tier:
    reduced = found[Op.ALL_REDUCE.value].link
    return Tier(
        name=name,
        size=members.size,
        latency_s=reduced.latency_s,
        bytes_per_s=reduced.bytes_per_s,
        queue_s=queue_s(members, care.repeats),
        collectives={operation: fitted.link for operation, fitted in found.items()},
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


def _overlap(care: Care) -> float:
    """Which share of a gradient bucket hides behind compute that lasts as long, run together and apart."""
    x, weight = torch.randn(256, 512), torch.randn(512, 512)
    bucket = torch.zeros(_BUCKET_BYTES // ITEM_BYTES)

    def piece() -> None:
        torch.relu(x @ weight)

    def reduce() -> None:
        all_reduce(bucket, None)

    pieces = ceil(timed_s(reduce, care.repeats) / timed_s(piece, care.repeats))

    def compute() -> None:
        for _ in range(pieces):
            piece()

    def together() -> None:
        work = dist.all_reduce(bucket, async_op=True)
        compute()
        work.wait()

    compute_s, reduce_s, both_s = alternated_s([compute, reduce, together], _OVERLAP_ROUNDS * care.repeats)
    return float(np.clip((compute_s + reduce_s - both_s) / min(compute_s, reduce_s), 0.0, 1.0))
