"""How long messages take between ranks, by the functions that layers call: packing is part of every exchange.

round 1:   layer, all-reduce 4 kB   layer, all-reduce 256 kB   ...   layer, bucket 16 MB
round 2:   the same again, so that a machine which is busy for a while spoils a little of each
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.distributed as dist

from slicewise.partition.steps import Op
from slicewise.running.link_fit import FittedLink, fitted_link
from slicewise.running.stopwatch import until_settled
from slicewise.runtime.collectives import all_reduce
from slicewise.runtime.devices import synchronize
from slicewise.runtime.exchange import Exchange
from slicewise.runtime.moves import gathered, total
from slicewise.runtime.priority import as_usual

_SMALL_BYTES, _SMALL_TIMES = 2**18, 4  # in every round: latencies are soon measured, and differ most
_SMALL_SIDE, _LARGE_SIDE = 128, 512  # of the product before a message: 0.1 ms on a CPU core, and some
ITEM_BYTES = 4
_STATISTICS = 512  # items, as a norm's
_UNDER_WAY_BYTES = 2**24  # a bucket that is not through before the last of a few small messages
_COLUMNS = 256  # of a part that is packed: slices of channels or of the rows of an image are runs of about a kilobyte


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Ranks that exchange messages: a process group, or the world. `inside`: whether this rank is one of them.

    `gradients` is a second group of the same ranks.
    """

    group: dist.ProcessGroup | None = None
    size: int
    inside: bool = True
    gradients: dist.ProcessGroup | None = None


Make = Callable[[int, Members], Callable[[], object]]  # a collective of so many items


def _all_reduce(items: int, members: Members) -> Callable[[], object]:
    x = torch.ones(items)
    return lambda: total(x, members.group)


def _bucket(items: int, members: Members) -> Callable[[], object]:
    """Gradients are summed where they lie; zeros stay zeros."""
    x = torch.zeros(items)
    return lambda: all_reduce(x, members.group)


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


def _send(items: int, members: Members) -> Callable[[], object]:
    """There and back between neighbours, as stages of a pipeline send; who has no neighbour does nothing."""
    me = dist.get_rank(members.group)
    neighbour = me + 1 - 2 * (me % 2)
    x, y = torch.ones(items), torch.ones(items)

    def once() -> None:
        if neighbour < members.size:
            for operator, moved in ((dist.isend, x), (dist.irecv, y))[:: 1 if me < neighbour else -1]:
                operation = dist.P2POp(operator, moved, group=members.group, group_peer=neighbour)
                for work in dist.batch_isend_irecv([operation]):
                    work.wait()

    return once


def _rows(items: int, members: Members) -> int:
    """Of `items` in as many rows of columns as there are members."""
    return max(items // (members.size * _COLUMNS), 1)


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """A collective of `make(items, members)()`: time = latencies * (p-1) * alpha + moved_bytes / beta."""

    make: Make
    latencies: int  # per other member
    passes: int  # of the message through each port, but for a rank's own part
    pairs: bool = False  # members talk in twos, however many there are

    def moved_bytes(self, message_bytes: int, ranks: int) -> float:
        members = 2 if self.pairs else ranks
        return self.passes * (members - 1) / members * message_bytes

    def link(self, message_bytes: Sequence[int], seconds: Sequence[float], ranks: int) -> FittedLink:
        found = fitted_link([self.moved_bytes(size, ranks) for size in message_bytes], seconds)
        latency_s = found.link.latency_s / (self.latencies * (1 if self.pairs else ranks - 1))
        burst_bytes = found.burst_bytes / self.moved_bytes(1, ranks)
        return replace(found, link=replace(found.link, latency_s=latency_s), burst_bytes=burst_bytes)


PROBES: dict[str, LinkProbe] = {
    Op.ALL_REDUCE: LinkProbe(_all_reduce, latencies=2, passes=2),
    Op.ALL_GATHER: LinkProbe(_all_gather, latencies=1, passes=1),
    Op.ALL_TO_ALL: LinkProbe(_all_to_all, latencies=1, passes=1),
    "bucket": LinkProbe(_bucket, latencies=2, passes=2),
    "send": LinkProbe(_send, latencies=2, passes=4, pairs=True),
}


def links(members: Members, message_bytes: Sequence[int], rounds: int) -> dict[str, FittedLink]:
    """Every rank returns the same. What is measured on several hosts at once counts as the slowest has it."""
    together = [probe for probe in PROBES.values() if not probe.pairs]
    in_pairs = [probe for probe in PROBES.values() if probe.pairs]
    seconds = message_seconds(together, message_bytes, members, rounds)
    with as_usual():  # as in a pipeline
        seconds += message_seconds(in_pairs, message_bytes, members, rounds)
    taken = {probe: [seconds.pop(0) for _ in message_bytes] for probe in (*together, *in_pairs)}
    return {str(name): probe.link(message_bytes, taken[probe], members.size) for name, probe in PROBES.items()}


def message_seconds(
    probes: Sequence[LinkProbe], message_bytes: Sequence[int], members: Members, rounds: int
) -> list[float]:
    """Of each probe, each size: as a training step meets it, caches and threads busy with a layer of its size.

    As in `slicewise run`, it takes as long as for the rank that comes last: waiting is the other's compute.
    """
    cases = [(probe, size) for probe in probes for size in message_bytes]
    medians = torch.zeros(len(cases), dtype=torch.float64)
    if members.inside:
        collectives = [probe.make(size // ITEM_BYTES, members) for probe, size in cases]
        for collective in reversed(collectives):  # the largest first: they bring the memory that others find
            until_settled(collective, members.group)
        rows = [[_after_compute(*case) for case in zip(collectives, cases, strict=True)] for _ in range(rounds)]
        medians = torch.stack([_last_ranks(column, members) for column in zip(*rows, strict=True)])
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    return [float(median) for median in medians]


def queue_s(members: Members, rounds: int) -> float:
    """What a small message waits behind a bucket that is under way, beyond its share of the link. Alike on every rank.

    bucket:   [ ---- all-reduce ---- ]
    layers:     compute, m   compute, m   compute, m      each against the same without a bucket
    """
    median = torch.zeros((), dtype=torch.float64)
    if members.inside:
        small, bucket = torch.zeros(_STATISTICS), torch.zeros(_UNDER_WAY_BYTES // ITEM_BYTES)
        case = PROBES[Op.ALL_REDUCE], small.nbytes
        messages = partial(_after_compute, partial(all_reduce, small, members.group), case)
        beside, alone = [], []
        for _ in range(rounds + 1):
            alone.append(messages())
            work = dist.all_reduce(bucket, group=members.gradients, async_op=True)
            beside.append(messages())
            work.wait()
        median = _last_ranks(beside[1:], members) - 2 * _last_ranks(alone[1:], members)
    dist.all_reduce(median, dist.ReduceOp.MAX)
    return max(0.0, float(median))


def _after_compute(collective: Callable[[], object], case: tuple[LinkProbe, int]) -> list[float]:
    _, size = case
    side = _SMALL_SIDE if size <= _SMALL_BYTES else _LARGE_SIDE
    a = torch.randn(side, side)
    seconds = []
    for _ in range(_SMALL_TIMES if size <= _SMALL_BYTES else 1):
        a @ a
        synchronize()
        start_s = time.perf_counter()
        collective()
        synchronize()
        seconds.append(time.perf_counter() - start_s)
    return seconds


def _last_ranks(rounds: Sequence[Sequence[float]], members: Members) -> torch.Tensor:
    shortest = torch.tensor([seconds for each in rounds for seconds in each], dtype=torch.float64)
    dist.all_reduce(shortest, dist.ReduceOp.MIN, group=members.group)
    return shortest.quantile(0.5)
