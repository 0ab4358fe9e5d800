"""Ranks that run different things are told so on every rank, before they wait for each other."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from slicewise.errors import PlanError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.runtime.collectives import finish, start_gather
from slicewise.runtime.whereabouts import mark

Result = TypeVar("Result")
UNABLE = -1  # the code of a rank that cannot go on: no other has it


def together(work: Callable[[], Result], described: Callable[[Result], Mapping[str, str]]) -> Result:
    """What `work` returns, where all ranks can do it and their results are described alike; otherwise all ranks raise.

    Descriptions are compared as a digest first: with a thousand ranks they are too much to send around.
    """
    result, error = None, None
    try:
        result = work()
    except Exception as raised:
        error = raised
    mine = described(result) if result is not None else {}
    told: list[tuple[str | None, str]] = [(None, "")] * dist.get_world_size()
    dist.all_gather_object(told, (str(error) if error else None, _digest(mine)))
    if error is not None:
        raise error
    for rank, (problem, _) in enumerate(told):
        if problem is not None:
            raise PlanError(f"rank {rank}: {problem}")
    if len({digest for _, digest in told}) > 1:
        _refuse_different(mine, [digest for _, digest in told])
    assert result is not None
    return result


def described(
    graph: LayerGraph, slicings: Mapping[str, Slicing], axes: Mapping[str, int], settings: Mapping[str, object]
) -> dict[str, str]:
    """What is executed, part by part; not what was predicted, nor when or how it was planned."""
    parts = {"the mesh": json.dumps(dict(axes)), **{name: str(value) for name, value in settings.items()}}
    fields = graph.to_dict()
    for layer in fields["layers"]:
        parts[f"layer {layer['name']}"] = json.dumps([layer, [str(dim or "") for dim in slicings[layer["name"]]]])
    return parts


def _refuse_different(mine: Mapping[str, str], digests: Sequence[str]) -> None:
    """All ranks come here together; rank 0's description says what each other rank has otherwise."""
    first = [dict(mine)]
    dist.broadcast_object_list(first, src=0)
    differs = [name for name in {**first[0], **mine} if first[0].get(name) != mine.get(name)]
    every: list[str] = [""] * len(digests)
    dist.all_gather_object(every, differs[0] if differs else "")
    rank = next(rank for rank, name in enumerate(every) if name)
    others = [other for other, digest in enumerate(digests) if digest != digests[0]]
    raise PlanError(
        f"ranks would run different things: {every[rank]} is another on rank {rank} than on rank 0 "
        f"({len(others)} of {len(digests)} ranks differ); give every rank the same plan and build the same model"
    )


def _digest(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(parts.items())).encode()).hexdigest()


class SampleCounts:
    """How many samples each rank passes in a step: one small message, under way while ranks compute."""

    def __init__(self, device: torch.device) -> None:
        # a message through the host's memory: waiting for it never stalls the device
        self._group = None if device.type == "cpu" else dist.new_group(backend="gloo")
        self._ranks = dist.get_world_size()

    def ask(self, count: int, code: int) -> "Counting":
        """`code` stands for everything else that must be the same on all ranks."""
        return Counting(torch.tensor([count, code], dtype=torch.int64), self._ranks, self._group)

    def explained(self, own: str) -> list[str]:
        """What every rank says of itself, once all know that they differ."""
        said = [""] * self._ranks
        dist.all_gather_object(said, own, group=self._group)
        return said


class Counting:
    def __init__(self, mine: Tensor, ranks: int, group: dist.ProcessGroup | None) -> None:
        with _disable_current_modes():  # whoever counts the network's messages does not count this one
            self._parts, self._work = start_gather(mine, ranks, group)

    def counts(self) -> tuple[list[int], bool]:
        """Per rank; and whether all ranks gave the same code."""
        mark("count")
        finish(self._work, self._parts)
        pairs = self._parts.view(-1, 2)
        return pairs[:, 0].tolist(), bool((pairs[:, 1] == pairs[0, 1]).all())
