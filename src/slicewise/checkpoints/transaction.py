"""What is there for what was read: all of it, or, where anything fails, nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


class Transaction:
    """`do`, `swap`, `load` and `update` note what is to be done; `run` does it, `undo` takes it back."""

    def __init__(self) -> None:
        self._changes: list[tuple[Callable[[], object], Callable[[], object]]] = []
        self._begun = 0

    def do(self, change: Callable[[], object], back: Callable[[], object]) -> None:
        self._changes.append((change, back))

    def swap(self, live: Tensor, read: Tensor) -> None:
        """The values of two tensors; a second time, back again."""
        done = False

        def change() -> None:
            nonlocal done
            _swap(live, read)
            done = True

        self.do(change, lambda: _swap(live, read) if done else None)

    def load(self, target: Any, state: Any, before: Any) -> None:
        """By `load_state_dict`, of which nobody knows how far it comes before it fails."""
        self.do(lambda: target.load_state_dict(state), lambda: target.load_state_dict(before))

    def update(self, target: dict[Any, Any], state: Mapping[Any, Any]) -> None:
        before = dict(target)
        self.do(lambda: _replace(target, state), lambda: _replace(target, before))

    def run(self) -> None:
        for change, _ in self._changes:
            self._begun += 1
            change()

    def undo(self) -> None:
        for _, back in reversed(self._changes[: self._begun]):
            back()


def _replace(target: dict[Any, Any], state: Mapping[Any, Any]) -> None:
    target.clear()
    target.update(state)


@torch.no_grad()
def _swap(live: Tensor, read: Tensor) -> None:
    """One tensor's worth of memory at a time."""
    ours, theirs = _local(live), _local(read)
    kept = ours.clone()
    ours.copy_(theirs)
    theirs.copy_(kept)


def _local(tensor: Tensor) -> Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor
