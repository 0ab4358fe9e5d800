"""Every collective of a step with what it is for: name, axes of its group, bytes sent and received, layer, term."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from slicewise.cluster.mesh import Mesh
from slicewise.runtime.clock import Clock, running
from slicewise.runtime.counting import CountCollectives, Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    op: str
    axes: tuple[int, ...]  # along which the members of the group differ
    term: str  # transfer, halo, reduce; what belongs to no layer is the gradients' sync
    layer: str
    sent_bytes: float  # ring algorithms assumed
    received_bytes: float
    backward: bool
    sends: dict[int, int]  # all-to-all: rank -> items
    receives: dict[int, int]

    @property
    def routed_bytes(self) -> float:
        """What a rank needs and does not hold: received, and in the backward of a halo given back."""
        return self.sent_bytes if self.backward and self.term == "halo" else self.received_bytes


@dataclass(frozen=True, slots=True)
class _Seen:
    at_s: float
    op: str
    members: tuple[int, ...]
    sent_bytes: float
    received_bytes: float
    backward: bool
    sends: dict[int, int]
    receives: dict[int, int]


class _Recorder(CountCollectives):
    """What `slicewise run` counts with, keeping the details."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[_Seen] = []

    def _count(self, func: Any, args: tuple[Any, ...]) -> None:
        self.counted = Counted()
        super()._count(func, args)
        if not self.counted.collectives:
            return  # a barrier
        ((op, _),) = self.counted.collectives.items()
        routed = op == "all_to_all"
        names = [argument.name for argument in func._schema.arguments]
        group = torch._C._distributed_c10d.ProcessGroup.unbox(args[names.index("process_group")])
        members = tuple(dist.get_process_group_ranks(group))
        sent = self.counted.sent_bytes
        self.seen.append(
            _Seen(
                at_s=perf_counter(),
                op=op,
                members=members,
                sent_bytes=sent,
                received_bytes=args[0].numel() * args[0].element_size() if routed else sent,
                backward=torch._C._current_graph_task_id() >= 0,
                receives=_splits(members, args[names.index("output_split_sizes")]) if routed else {},
                sends=_splits(members, args[names.index("input_split_sizes")]) if routed else {},
            )
        )


@contextmanager
def recording(mesh: Mesh) -> Iterator[list[Collective]]:
    """The collectives of what runs inside, in order; the list is filled at the end."""
    collectives: list[Collective] = []
    recorder = _Recorder()
    with running(Clock()) as clock, recorder:
        yield collectives
    for seen in recorder.seen:
        around = [span for span in clock.spans if span.start_s <= seen.at_s <= span.stop_s]
        collectives.append(
            Collective(
                op=seen.op,
                axes=_axes(mesh, seen.members),
                term=around[0].term if around else "sync",
                layer=around[0].layer if around else "",
                sent_bytes=seen.sent_bytes,
                received_bytes=seen.received_bytes,
                backward=seen.backward,
                sends=seen.sends,
                receives=seen.receives,
            )
        )


def _axes(mesh: Mesh, members: Sequence[int]) -> tuple[int, ...]:
    """Only groups of the mesh have any: ranks that differ along some axes, and all of those."""
    places = mesh.coordinates[list(members)]
    axes = tuple(axis for axis in range(len(mesh.axes)) if len(set(places[:, axis])) > 1)
    assert mesh.group(members[0], axes) == list(members)
    return axes


def _splits(members: Sequence[int], items: Sequence[int]) -> dict[int, int]:
    return {rank: count for rank, count in zip(members, items, strict=True) if count}
