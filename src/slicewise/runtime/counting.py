"""Every collective that really reaches the process group, counted where torch dispatches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Counted:
    """Bytes sent by this rank, ring algorithms assumed, and the number of collectives by name."""

    sent_bytes: float = 0.0
    collectives: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, sent_bytes: float) -> None:
        self.sent_bytes += sent_bytes
        self.collectives[name] = self.collectives.get(name, 0) + 1


class CountCollectives(TorchDispatchMode):
    """`with CountCollectives() as counted: step()`; backward on CPU runs in the same thread and is seen too."""

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
        if name == "allreduce":
            tensors, group = args[0], args[1]
            ranks = _size(group)
            self.counted.add("all_reduce", sum(2 * (ranks - 1) / ranks * _bytes(tensor) for tensor in tensors))
        elif name in ("allgather_base", "all_gather_single"):
            output, group = args[0], args[2]
            ranks = _size(group)
            self.counted.add("all_gather", (ranks - 1) / ranks * _bytes(output))
        elif name == "alltoall_base":
            self.counted.add("all_to_all", _bytes(args[1]))  # a rank sends itself nothing
        elif name == "broadcast":
            ranks = _size(args[1])
            self.counted.add("broadcast", sum((ranks - 1) / ranks * _bytes(tensor) for tensor in args[0]))
        elif name not in ("barrier", "monitored_barrier"):
            self.counted.add(name, 0.0)


def _size(group: Any) -> int:
    return int(torch._C._distributed_c10d.ProcessGroup.unbox(group).size())


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
