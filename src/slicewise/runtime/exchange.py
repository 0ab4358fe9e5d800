"""One all-to-all, compiled for one rank: which slices it sends to whom and where received ones go."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from slicewise.partition.parts import Box, relative, volume
from slicewise.partition.route import Transfer, route_of
from slicewise.runtime.collectives import all_to_all

Slices = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """`run(x)` turns this rank's source box into its target box. Where parts meet they are summed (`adds`)."""

    group: dist.ProcessGroup | None
    sends: tuple[tuple[int, Slices], ...]  # (position in the group, slices of the source), in group order
    receives: tuple[tuple[int, Slices], ...]
    keeps: tuple[tuple[Slices, Slices], ...]  # what the rank has itself: (source, target)
    shape: tuple[int, ...]
    members: int
    adds: bool
    covers: bool  # every item of the target is written
    begins: bool  # the rank's own part is a whole target, and what comes from others is added to it
    fill: float

    @classmethod
    def compile(
        cls,
        *,
        own: Sequence[Box],
        needed: Sequence[Box],
        me: int,
        group: dist.ProcessGroup | None,
        terms: Sequence[int] | None = None,
        target: Box | None = None,
        fill: float = 0.0,
        periods: Sequence[int] | None = None,
    ) -> "Exchange":
        """From the boxes of all members. `target` may be larger than the needed box: a border to `fill`.

        `periods`: of dims that go round, as `route_of` takes them.
        """
        transfers = route_of(me, own, needed, terms, periods)
        return cls._of(transfers, own[me], target or needed[me], me, group, len(own), terms is not None, fill, periods)

    @classmethod
    def compile_adjoint(
        cls,
        *,
        own: Sequence[Box],
        needed: Sequence[Box],
        me: int,
        group: dist.ProcessGroup | None,
        target: Box | None = None,
        periods: Sequence[int] | None = None,
    ) -> "Exchange":
        """The transpose: what was received goes back to where it came from and is added there."""
        there = route_of(me, own, needed, None, periods)
        back = [Transfer(transfer.target, transfer.source, transfer.box) for transfer in there]
        back.sort(key=lambda transfer: (transfer.source, transfer.target))
        return cls._of(back, target or needed[me], own[me], me, group, len(own), True, 0.0, periods)

    @classmethod
    def _of(
        cls,
        transfers: Sequence[Transfer],
        source: Box,
        target: Box,
        me: int,
        group: dist.ProcessGroup | None,
        members: int,
        adds: bool,
        fill: float,
        periods: Sequence[int] | None,
    ) -> "Exchange":
        within = partial(relative, periods=periods)
        sends = tuple((t.target, within(t.box, source)) for t in transfers if t.source == me != t.target)
        receives = tuple((t.source, within(t.box, target)) for t in transfers if t.target == me != t.source)
        keeps = tuple((within(t.box, source), within(t.box, target)) for t in transfers if t.source == t.target == me)
        written = sum(volume(t.box) for t in transfers if t.target == me)
        shape = tuple(stop - start for start, stop in target)
        covers = not adds and written == volume(target)
        begins = adds and [_count(into) for _, into in keeps] == [volume(target)]
        return cls(group, sends, receives, keeps, shape, members, adds, covers, begins, fill)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return self.assemble(x, self.receive(x))

    def receive(self, x: torch.Tensor) -> torch.Tensor:
        """What the other ranks send, end to end in group order; every rank of the group takes part."""
        if self.members == 1:
            return x.new_empty(0)
        send_counts, receive_counts = [0] * self.members, [0] * self.members
        for peer, source in self.sends:
            send_counts[peer] += _count(source)
        for peer, target in self.receives:
            receive_counts[peer] += _count(target)
        send = x.new_empty(sum(send_counts))
        offset = 0
        for _, source in self.sends:
            view = x[source]
            send[offset : offset + view.numel()].view(view.shape).copy_(view)
            offset += view.numel()
        received = x.new_empty(sum(receive_counts))
        all_to_all(received, send, (receive_counts, send_counts), self.group)
        return received

    def assemble(self, x: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
        """The target box, from this rank's own part and what it received."""
        if self.begins:
            result = x[self.keeps[0][0]].clone(memory_format=torch.contiguous_format)
        else:
            result = x.new_empty(self.shape) if self.covers else x.new_full(self.shape, self.fill)
            for source, target in self.keeps:
                self._write(result, target, x[source])
        offset = 0
        for _, target in self.receives:
            count = _count(target)
            self._write(result, target, received[offset : offset + count].view(result[target].shape))
            offset += count
        return result

    def _write(self, result: torch.Tensor, target: Slices, value: torch.Tensor) -> None:
        if self.adds:
            result[target] += value
        else:
            result[target] = value


def _count(slices: Slices) -> int:
    items = 1
    for one in slices:
        items *= one.stop - one.start
    return items
