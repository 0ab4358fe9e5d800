"""Which ranks share a host, and whether that is what a plan assumes.

A plan for 2 nodes x 2 devices takes ranks that are neighbours for neighbours:

    ranks          0 1 2 3
    the plan's     a a b b
    block          a a b b      torchrun, Slurm's --distribution=block
    cyclic         a b a b      every exchange inside a node would cross the network: refused
"""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from operator import mul

import torch.distributed as dist

from slicewise.cluster.cluster import Cluster
from slicewise.errors import PlanError

_MOST_NAMED = 8


def own_host() -> str:
    """The same on all ranks that reach each other without a network; two containers of one machine are two hosts."""
    namespace = ""
    with suppress(OSError):
        namespace = str(os.stat("/proc/self/ns/net").st_ino)
    return f"{socket.gethostname()} {namespace}"


def hosts_of_ranks() -> list[int]:
    """Rank -> its host, numbered in the order in which they appear. Every rank calls it."""
    told = [""] * dist.get_world_size()
    dist.all_gather_object(told, own_host())
    return numbered(told)


def numbered(names: Sequence[str]) -> list[int]:
    """`numbered(["x", "y", "x"]) == [0, 1, 0]`."""
    first = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [first[name] for name in names]


def check_hosts(machine: Cluster | None) -> None:
    """Refuse, on every rank, ranks that are numbered otherwise than the plan's machine assumes. Every rank calls it."""
    if machine is None or len(machine.tiers) < 2:
        return
    sizes = [tier.size for tier in reversed(machine.tiers)]
    found = misnumbered(hosts_of_ranks(), list(accumulate(sizes[:-1], mul)))
    if found is not None:
        raise PlanError(found)


def misnumbered(hosts: Sequence[int], groups: Sequence[int]) -> str | None:
    """What is wrong with the ranks' order, where another order would keep more groups of neighbours on one host.

    `groups`: how many ranks the plan takes for neighbours, from the innermost tier outwards. One host for all ranks
    is as good as any number of nodes; so is one rank per host, for no order helps there.
    """
    by_host = sorted(range(len(hosts)), key=lambda rank: (hosts[rank], rank))
    for size in groups:
        as_is = _together(hosts, size)
        if as_is < _together([hosts[rank] for rank in by_host], size):
            return _told(hosts, size)
    return None


def _together(hosts: Sequence[int], size: int) -> int:
    """Groups of `size` neighbours that share a host."""
    return sum(len(set(hosts[start : start + size])) == 1 for start in range(0, len(hosts), size))


def _told(hosts: Sequence[int], size: int) -> str:
    start = next(at for at in range(0, len(hosts), size) if len(set(hosts[at : at + size])) > 1)
    others = [rank for rank, host in enumerate(hosts) if host == hosts[start]]
    listed = ", ".join(map(str, others[:_MOST_NAMED])) + (", ..." if len(others) > _MOST_NAMED else "")
    return (
        f"the plan takes ranks {start} to {start + size - 1} for devices of one node, but the host of rank {start} has "
        f"ranks {listed}; number the ranks host by host, as torchrun does (Slurm: --distribution=block)"
    )
