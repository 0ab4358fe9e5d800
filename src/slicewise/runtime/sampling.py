"""Samples for a sliced network: each rank its own, or all ranks the same, random augmentation included."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from slicewise.errors import RequestError
from slicewise.runtime.sliced_module import SlicedModule


def data_loader(
    dataset: Dataset[Any], net: SlicedModule, *, batch: int, shuffle: bool = True, seed: int = 0, **options: Any
) -> DataLoader[Any]:
    """Batches of `batch` samples over all ranks, as `net` wants to be fed; `options` are DataLoader's.

    Where the batch goes to ranks by sample, each rank loads its share. Where every rank passes the whole batch, all
    load the same samples in the same order, and whatever random numbers (of random, NumPy or torch) the dataset
    draws for a sample are the same on every rank: they follow from seed, epoch and index.

    Inside torchrun:

        loader = sw.data_loader(dataset, net, batch=64, num_workers=4)
        loader.sampler.set_epoch(epoch)     # as with DistributedSampler: another order, other random numbers
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
    return DataLoader(_Repeatable(dataset, seed), batch_size=batch // ranks, sampler=sampler, **options)


class _Order(DistributedSampler[Any]):
    """Indices with their epoch: workers that live on must see it change."""

    def __iter__(self) -> Iterator[Any]:
        return ((self.epoch, index) for index in super().__iter__())


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
