"""Layout changes as autograd functions: the plan's steps forward, its own steps for the gradient backward."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.partition.layout import PARTIAL, Layout, Shard, partial_axes
from slicewise.partition.parts import as_boxes, box, boxes, relative
from slicewise.partition.steps import Op, Step, steps
from slicewise.runtime.clock import span
from slicewise.runtime.collectives import all_gather, all_reduce
from slicewise.runtime.exchange import Exchange
from slicewise.runtime.groups import Groups

Move = Callable[[Tensor], Tensor]


def compile_moves(shape: tuple[int, ...], source: Layout, target: Layout, groups: Groups) -> list[Move]:
    """What this rank does to get its part under `target` from its part under `source`; empty where nothing moves."""
    return [_compile(shape, step, groups) for step in steps(shape, source, target, groups.mesh)]


def _compile(shape: tuple[int, ...], step: Step, groups: Groups) -> Move:
    return {
        Op.LOCAL: _local,
        Op.ALL_REDUCE: _all_reduce,
        Op.ALL_GATHER: _all_gather,
        Op.ALL_TO_ALL: _all_to_all,
    }[step.op](shape, step, groups)


def _local(shape: tuple[int, ...], step: Step, groups: Groups) -> Move:
    """Cut out the part that this rank keeps; under a new Partial only the first rank of the axis keeps anything."""
    own, kept = (box(shape, layout, groups.mesh, groups.rank) for layout in (step.source, step.target))
    slices = relative(kept, own)
    new_partial = [axis for axis in partial_axes(step.target) if step.source[axis] is not PARTIAL]
    silent = any(groups.mesh.coordinates[groups.rank, axis] for axis in new_partial)

    def move(x: Tensor) -> Tensor:
        part = x[slices]
        # a fresh tensor: autograd refuses in-place operators on views that custom functions return
        return torch.zeros_like(part) if silent else part.clone(memory_format=torch.contiguous_format)

    return move


def _all_reduce(shape: tuple[int, ...], step: Step, groups: Groups) -> Move:
    group = groups.of(step.axes)

    return lambda x: total(x, group)


def _all_gather(shape: tuple[int, ...], step: Step, groups: Groups) -> Move:
    group, members = groups.of(step.axes), len(groups.members(step.axes))
    sharded = step.source[step.axes[0]]
    assert isinstance(sharded, Shard)
    dim = sharded.dim
    return lambda x: gathered(x, dim, members, group)


def _all_to_all(shape: tuple[int, ...], step: Step, groups: Groups) -> Move:
    members = groups.members(step.axes)
    summed = [axis for axis in partial_axes(step.source) if isinstance(step.target[axis], Shard)]
    own, needed = (as_boxes(boxes(shape, layout, groups.mesh, members)) for layout in (step.source, step.target))
    summands: dict[tuple[int, ...], int] = {}
    terms = [
        summands.setdefault(tuple(int(groups.mesh.coordinates[rank, axis]) for axis in summed), len(summands))
        for rank in members
    ]
    return Exchange.compile(
        own=own,
        needed=needed,
        me=members.index(groups.rank),
        group=groups.of(step.axes),
        terms=terms if summed else None,
    ).run


def total(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """The sum over all members."""
    result = x.clone(memory_format=torch.contiguous_format)
    all_reduce(result, group)
    return result


def gathered(x: Tensor, dim: int, members: int, group: dist.ProcessGroup | None) -> Tensor:
    """Every member's part, joined along `dim`."""
    parts = all_gather(x, members, group)
    return parts if dim == 0 else torch.cat(parts.split(x.shape[0]), dim)


def move(x: Tensor, forward: Sequence[Move], backward: Sequence[Move], layer: str) -> Tensor:
    """`forward` on the value, `backward` on its gradient."""
    moved: Tensor = _Move.apply(x, forward, backward, layer)
    return moved


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Sequence[Move], backward: Sequence[Move], layer: str) -> Tensor:
        ctx.path, ctx.layer = backward, layer
        with span("transfer", layer):
            for step in forward:
                x = step(x)
        return x if forward else x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        with span("transfer", ctx.layer):
            for step in ctx.path:
                gradient = step(gradient)
        return gradient, None, None, None
