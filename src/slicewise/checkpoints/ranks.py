"""What ranks tell each other while they save or load: through the host's memory, beside the network's own messages."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from slicewise.errors import CheckpointError

Result = TypeVar("Result")


class Together:
    """All ranks of the world, or this process alone where there is no process group."""

    def __init__(self, *, alone: bool = False) -> None:
        self.group = _own_group() if dist.is_initialized() and not alone else None
        self.rank = dist.get_rank() if self.group is not None else 0
        self.ranks = dist.get_world_size() if self.group is not None else 1

    def every(self, mine: Result) -> list[Result]:
        """What each rank gives."""
        if self.group is None:
            return [mine]
        told: list[Any] = [None] * self.ranks
        dist.all_gather_object(told, mine, group=self.group)
        return told

    def of_the_first(self, make: Callable[[], Result]) -> Result:
        """What rank 0 makes; where it cannot, every rank raises why."""
        return self.attempted(make if self.rank == 0 else lambda: None)[0]  # type: ignore[return-value]

    def attempted(self, work: Callable[[], Result]) -> list[Result]:
        """Every rank's result; where one fails, all raise."""
        mine, problem = None, None
        try:
            mine = work()
        except Exception as error:
            problem = said(error)
        told = self.every((mine, problem))
        for rank, (_, reason) in enumerate(told):
            if reason is not None:
                raise CheckpointError(f"rank {rank}: {reason}" if self.ranks > 1 else reason)
        return [result for result, _ in told]  # type: ignore[misc]


def said(error: BaseException) -> str:
    """The reason in one line: the file that a system call failed on, or what was raised."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if isinstance(error, CheckpointError) else f"{type(error).__name__}: {lines[0]}"


_made: tuple[dist.ProcessGroup | None, dist.ProcessGroup | None] = (None, None)  # the world, our group on it


def _own_group() -> dist.ProcessGroup:
    """Made when it is first needed, by all ranks together; saves in the background must not meet a step's messages."""
    global _made
    if _made[0] is not dist.group.WORLD or _made[1] is None:
        _made = (dist.group.WORLD, dist.new_group(backend="gloo"))
    group = _made[1]
    assert group is not None
    return group
