"""Every collective that really reaches the process group, counted where torch dispatches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

_SILENT = ("barrier", "monitored_barrier", "recv")


@dataclass
class Counted:
    """Bytes sent by this rank, ring algorithms assumed, within which ranks, and the number of collectives by name."""

    sent_within: dict[tuple[int, ...], float] = field(default_factory=dict)
    collectives: dict[str, int] = field(default_factory=dict)

    @property
    def sent_bytes(self) -> float:
        return sum(self.sent_within.values())

    def add(self, name: str, ranks: tuple[int, ...], sent_bytes: float) -> None:
        self.sent_within[ranks] = self.sent_within.get(ranks, 0.0) + sent_bytes
        self.collectives[name] = self.collectives.get(name, 0) + 1


class CountCollectives(TorchDispatchMode):
    """`with CountCollectives() as counted: step()`; backward is seen too, also on a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = Counted()

    def __enter__(self) -> Counted:
        super().__enter__()
        return self.counted

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # let the DTensor unwrap itself first
        if func.namespace == "c10d":
            self._count(func, args)
        return func(*args, **(kwargs or {}))

    def _count(self, func: Any, args: tuple[Any, ...]) -> None:
        name = func._schema.name.removeprefix("c10d::").strip("_")
        if name in _SILENT:
            return
        ranks = _ranks(func, args)
        if name == "send":  # its peer counts nothing
            self.counted.add("send", tuple(sorted((dist.get_rank(), ranks[args[2]]))), sum(map(_bytes, args[0])))
            return
        share = (len(ranks) - 1) / len(ranks)
        if name == "allreduce":
            self.counted.add("all_reduce", ranks, sum(2 * share * _bytes(tensor) for tensor in args[0]))
        elif name in ("allgather_base", "all_gather_single"):
            self.counted.add("all_gather", ranks, share * _bytes(args[0]))
        elif name in ("reduce_scatter_base", "reduce_scatter_single"):
            self.counted.add("reduce_scatter", ranks, share * _bytes(args[1]))
        elif name == "alltoall_base":
            self.counted.add("all_to_all", ranks, _bytes(args[1]))  # a rank sends itself nothing
        elif name == "broadcast":
            self.counted.add("broadcast", ranks, sum(share * _bytes(tensor) for tensor in args[0]))
        else:
            self.counted.add(name, ranks, 0.0)


def _ranks(func: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """Of the group that a collective is called on."""
    names = [argument.name for argument in func._schema.arguments]
    group = torch._C._distributed_c10d.ProcessGroup.unbox(args[names.index("process_group")])
    return tuple(dist.get_process_group_ranks(group))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
