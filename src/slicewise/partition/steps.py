"""From one layout to another: the collectives it takes, in order.

Partial -> Replicate        all-reduce, after slicing where the rank already holds all it needs
Shard   -> Replicate        all-gather, where parts are even and the axes are the innermost
anything else that moves    one all-to-all with the splits of a route (Partial -> Shard: received parts are added)
the rank holds what it needs, or Replicate -> Partial    nothing but a local slice
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile

import numpy as np

from slicewise.cluster.mesh import Mesh
from slicewise.partition.layout import (
    PARTIAL,
    REPLICATE,
    Layout,
    Shard,
    partial_axes,
    replace_axes,
    sharding_axes,
)
from slicewise.partition.parts import boxes


class Op(StrEnum):
    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Step:
    op: Op
    axes: tuple[int, ...]  # the group: ranks that differ along these
    source: Layout
    target: Layout


@lru_cache(maxsize=65536)
def steps(shape: tuple[int, ...], source: Layout, target: Layout, mesh: Mesh) -> tuple[Step, ...]:
    """The steps that turn a tensor of `shape` from `source` into `target`."""
    masked = tuple(axis for axis in partial_axes(target) if source[axis] is not PARTIAL)
    goal = replace_axes(target, masked, REPLICATE)
    path = []
    reduced = tuple(axis for axis in partial_axes(source) if goal[axis] is REPLICATE)
    if reduced and holds_all(shape, source, goal, mesh):
        sliced = replace_axes(goal, reduced, PARTIAL)
        if sliced != source:
            path.append(Step(Op.LOCAL, (), source, sliced))
            source = sliced
    if reduced:
        path.append(Step(Op.ALL_REDUCE, reduced, source, replace_axes(source, reduced, REPLICATE)))
        source = replace_axes(source, reduced, REPLICATE)
    if source != goal:
        path.append(_move(shape, source, goal, mesh))
    if masked:
        path.append(Step(Op.LOCAL, (), goal, target))
    return tuple(path)


def holds_all(shape: tuple[int, ...], source: Layout, goal: Layout, mesh: Mesh) -> bool:
    """Whether every rank's part under `goal` lies in its part under `source`, sums over Shards apart."""
    if any(isinstance(goal[axis], Shard) for axis in partial_axes(source)):
        return False
    own_start, own_stop = boxes(shape, source, mesh)
    start, stop = boxes(shape, goal, mesh)
    return bool(np.all((own_start <= start) & (stop <= own_stop)))


def _move(shape: tuple[int, ...], source: Layout, goal: Layout, mesh: Mesh) -> Step:
    if holds_all(shape, source, goal, mesh):
        return Step(Op.LOCAL, (), source, goal)
    summed = tuple(axis for axis in partial_axes(source) if isinstance(goal[axis], Shard))
    changed = [d for d in range(len(shape)) if sharding_axes(source, d) != sharding_axes(goal, d)]
    crossed = {axis for d in changed for axis in _beyond(sharding_axes(source, d), sharding_axes(goal, d))}
    axes = tuple(sorted(crossed | set(summed)))
    if not summed and len(changed) == 1 and _is_gather(shape, source, goal, changed[0], mesh):
        gathered = tuple(axis for axis in axes if goal[axis] is REPLICATE)
        return Step(Op.ALL_GATHER, gathered, source, goal)
    return Step(Op.ALL_TO_ALL, axes, source, goal)


def _beyond(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """The axes behind the first that both chunkings begin with: those chunk alike, and nothing leaves a chunk."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return before[len(list(alike)) :]


def _is_gather(shape: tuple[int, ...], source: Layout, goal: Layout, dim: int, mesh: Mesh) -> bool:
    """Only the innermost axes of one dim are gathered, and all parts of that dim are equal."""
    before, after = sharding_axes(source, dim), sharding_axes(goal, dim)
    return before[: len(after)] == after and shape[dim] % mesh.group_size(before) == 0
