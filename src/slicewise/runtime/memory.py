"""The most bytes of tensors that are alive at once on this rank: accounted for, not what the allocator took."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(step: Callable[[], object], held: Iterable[Tensor], device: torch.device) -> int:
    """Of weights, gradients, optimizer state, inputs and whatever `step` makes; `held` are those it starts with."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        step()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device))
    live = _FollowStorages()
    with live:
        for tensor in held:
            live.add(tensor)
        step()
    return live.peak_bytes


class _FollowStorages(TorchDispatchMode):
    """Counts each storage from the operator that makes it until its last tensor is gone; views share one."""

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = self.peak_bytes = 0
        self._known: dict[int, weakref.finalize[..., Any]] = {}  # by address: gone when the storage is

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for finalizer in self._known.values():
            finalizer.detach()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its local tensor comes by here next
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.add(tensor)
        return result

    def add(self, tensor: Tensor) -> None:
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        if local.device.type == "meta":
            return
        storage = local.untyped_storage()
        address = storage._cdata
        if address in self._known:
            return
        size = storage.nbytes()
        self._known[address] = weakref.finalize(storage, self._forget, address, size)
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _forget(self, address: int, size: int) -> None:
        del self._known[address]
        self.live_bytes -= size
