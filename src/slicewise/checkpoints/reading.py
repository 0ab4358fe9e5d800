"""What a checkpoint holds, and reading any of it into tensors that lie as this rank wants them."""

import pickle
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from slicewise.checkpoints.manifest import Manifest
from slicewise.checkpoints.ranks import Together, said
from slicewise.checkpoints.state import Table
from slicewise.errors import CheckpointError


class Stored:
    """One checkpoint whose files are known to be whole."""

    def __init__(self, path: Path, together: Together) -> None:
        self.path, self._together = path, together
        self.manifest = Manifest.read(path)
        self._kinds = FileSystemReader(path).read_metadata().state_dict_metadata

    def __contains__(self, key: str) -> bool:
        return key in self._kinds

    def below(self, prefix: str) -> list[str]:
        return [key for key in self._kinds if key.startswith(prefix)]

    def is_tensor(self, key: str) -> bool:
        return isinstance(self._kinds[key], TensorStorageMetadata)

    def shape(self, key: str) -> tuple[int, ...]:
        kind = self._kinds[key]
        return tuple(kind.size) if isinstance(kind, TensorStorageMetadata) else ()

    def room(self, key: str, like: Tensor | None = None, dtype: torch.dtype | None = None) -> Any:
        """Where a value is read to: laid out as `like` if that has its shape, otherwise whole, on the host."""
        kind = self._kinds[key]
        if not isinstance(kind, TensorStorageMetadata):
            return b""
        dtype = dtype or kind.properties.dtype
        if like is not None and tuple(like.shape) == tuple(kind.size):
            return torch.empty_like(like, dtype=dtype, requires_grad=False)
        return torch.empty(kind.size, dtype=dtype)

    def read(self, table: Table) -> Table:
        """Fill what `room` made, on every rank; what is no tensor comes as the object it was."""
        alone = self._together.group is None
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="torch.distributed is disabled")
                load(
                    table,
                    storage_reader=FileSystemReader(self.path),
                    planner=DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
                    process_group=self._together.group,
                    no_dist=alone,
                )
        except CheckpointException as error:
            rank, (reason, _) = next(iter(error.failures.items()))
            raise CheckpointError(f"{self.path}: rank {rank}: {said(reason)}") from error
        return {key: pickle.loads(value) if isinstance(value, bytes) else value for key, value in table.items()}

    def objects(self, keys: Iterable[str]) -> Table:
        return self.read({key: b"" for key in keys if key in self})

    def check_network(self, held: Mapping[str, Any]) -> None:
        """This rank's weights are there, in their shapes."""
        missing = [name for name in held if f"net/{name}" not in self]
        if missing:
            raise CheckpointError(f"{self.path}: has no {missing[0]} ({len(missing)} of {len(held)} are missing)")
        for name, value in held.items():
            found = self.shape(f"net/{name}")
            if isinstance(value, Tensor) and found != tuple(value.shape):
                raise CheckpointError(f"{self.path}: {name} has shape {found}, the network's has {tuple(value.shape)}")

    def check_complete(self, held: Mapping[str, Any]) -> None:
        """Every weight that was saved is some rank's: a pipeline's ranks have some each."""
        names = sorted(key.removeprefix("net/") for key in self.below("net/"))
        known = torch.tensor([name in held for name in names], dtype=torch.uint8)
        if self._together.group is not None:
            dist.all_reduce(known, dist.ReduceOp.MAX, group=self._together.group)
        unknown = [name for name, found in zip(names, known.tolist(), strict=True) if not found]
        if unknown:
            raise CheckpointError(f"{self.path}: {unknown[0]} is not in the network ({len(unknown)} are not)")
