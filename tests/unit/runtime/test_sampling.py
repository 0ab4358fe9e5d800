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


def test_a_loader_goes_on_where_another_stopped_on_any_number_of_ranks() -> None:
    """The same samples of the whole batch, step by step, in the middle of an epoch."""

    def batches(ranks: int, state: dict[str, int] | None, steps: int) -> tuple[list[set[int]], dict[str, int]]:
        loaders = [
            data_loader(
                Numbers(), cast(SlicedModule, SimpleNamespace(rank=r, ranks=ranks, local_samples=True)), batch=4
            )
            for r in range(ranks)
        ]
        seen: list[set[int]] = [set() for _ in range(steps)]
        for loader in loaders:
            if state:
                loader.load_state_dict(state)
            step = 0
            for epoch in range(loader.state_dict()["epoch"], 9):
                loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
                for numbers in loader:
                    seen[step] |= set(numbers.tolist())
                    step += 1
                    if step == steps:
                        break
                else:
                    continue
                break
        return seen, loaders[0].state_dict()

    straight, _ = batches(2, None, 8)
    for stop in (1, 3, 5):  # an epoch has three batches
        first, state = batches(4, None, stop)
        rest, _ = batches(1, state, 8 - stop)
        assert first + rest == straight


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return index
