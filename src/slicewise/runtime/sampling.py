"""Samples for a sliced network: each rank its own, or all ranks the same, random augmentation included."""

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from slicewise.errors import RequestError
from slicewise.runtime.sliced_module import SlicedModule


def data_loader(
    dataset: Dataset[Any], net: SlicedModule, *, batch: int, shuffle: bool = True, seed: int = 0, **options: Any
) -> "Loader":
    """Batches of `batch` samples over all ranks, as `net` wants to be fed; `options` are DataLoader's.

    Where the batch goes to ranks by sample, each rank loads its share. Where every rank passes the whole batch, all
    load the same samples in the same order, and whatever random numbers (of random, NumPy or torch) the dataset
    draws for a sample are the same on every rank: they follow from seed, epoch and index.

    Inside torchrun:

        loader = sw.data_loader(dataset, net, batch=64, num_workers=4)
        loader.sampler.set_epoch(epoch)     # as with DistributedSampler: another order, other random numbers

    `loader.state_dict()` says how far it has come; loaded into a loader of any number of ranks, that goes on with the
    next batch of the same epoch. save_checkpoint(..., loader=loader) does both.
    """
    ranks = net.ranks if net.local_samples else 1
    if batch % ranks:
        raise RequestError(f"a batch of {batch} does not divide over {ranks} ranks; use a multiple of {ranks}")
    sampler = _Order(
        dataset,
        num_replicas=ranks,
        rank=net.rank if net.local_samples else 0,
        shuffle=shuffle,
        seed=seed,
        drop_last=bool(options.get("drop_last", False)),
    )
    return Loader(_Repeatable(dataset, seed), sampler, batch, ranks, options)


class Loader(DataLoader[Any]):
    """A DataLoader that knows how many samples of its epoch it has handed out, and can go on from there."""

    def __init__(
        self, dataset: Dataset[Any], sampler: "_Order", batch: int, ranks: int, options: Mapping[str, Any]
    ) -> None:
        # a generator of its own: how often a pass is begun does not show in the script's random numbers
        own = {"generator": torch.Generator(), **options}
        super().__init__(dataset, batch_size=batch // ranks, sampler=sampler, **own)
        self._order, self._whole_batch, self._given = sampler, batch, 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._given = self._order.begin()
        for batch in super().__iter__():
            self._given += self._whole_batch  # before the step that it is for: a checkpoint after that step has it
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Samples over all ranks, so that another number of ranks goes on in the same place."""
        return {"epoch": self._order.epoch, "samples": self._given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self._given = state["samples"]
        self._order.resume(state["epoch"], state["samples"])


class _Order(DistributedSampler[Any]):
    """Indices with their epoch: workers that live on must see it change."""

    _skipped = _leaving_out = 0  # samples over all ranks that were handed out before

    def resume(self, epoch: int, samples: int) -> None:
        self.epoch, self._skipped = epoch, samples

    def set_epoch(self, epoch: int) -> None:
        self._skipped = self._skipped if epoch == self.epoch else 0
        super().set_epoch(epoch)

    def begin(self) -> int:
        """How many samples the pass that begins leaves out; the next one leaves out none."""
        self._leaving_out, self._skipped = self._skipped, 0
        return self._leaving_out

    def __iter__(self) -> Iterator[Any]:
        own = itertools.islice(super().__iter__(), self._leaving_out // self.num_replicas, None)
        return ((self.epoch, index) for index in own)


class _Repeatable(Dataset[Any]):
    """A sample's random numbers follow from (seed, epoch, index); everybody else's go on as if none had been drawn."""

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self._dataset, self._seed = dataset, seed

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, key: tuple[int, int]) -> Any:
        epoch, index = key
        number = int(np.random.SeedSequence([self._seed, epoch, index]).generate_state(1)[0])
        python, array = random.getstate(), np.random.get_state()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            random.seed(number)
            np.random.seed(number)
            try:
                return self._dataset[index]
            finally:
                random.setstate(python)
                np.random.set_state(array)
