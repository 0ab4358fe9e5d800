"""Workers that live on see epochs change."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import Dataset

from slicewise.errors import RequestError
from slicewise.runtime.sampling import data_loader
from slicewise.runtime.sliced_module import SlicedModule


class Noisy(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(torch.rand(()))


def _network(rank: int, *, local_samples: bool) -> SlicedModule:
    """All that a loader asks of a network."""
    return cast(SlicedModule, SimpleNamespace(rank=rank, ranks=2, local_samples=local_samples))


def test_workers_draw_new_numbers_each_epoch_and_the_same_on_every_rank() -> None:
    seen = []
    for rank in range(2):
        torch.manual_seed(rank)
        loader = data_loader(
            Noisy(), _network(rank, local_samples=False), batch=3, num_workers=1, persistent_workers=True
        )
        epochs = []
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
            epochs.append([float(noise) for _, noises in loader for noise in noises])
        seen.append(epochs)
    assert seen[0] == seen[1]
    assert not set(seen[0][0]) & set(seen[0][1])


def test_the_scripts_own_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    loader = data_loader(Noisy(), _network(0, local_samples=False), batch=3, generator=torch.Generator())
    assert len(list(loader)) == 2
    assert torch.equal(torch.rand(3), expected)


def test_a_batch_that_does_not_divide_over_ranks_is_refused() -> None:
    with pytest.raises(RequestError, match="a batch of 3 does not divide over 2 ranks"):
        data_loader(Noisy(), _network(0, local_samples=True), batch=3)
