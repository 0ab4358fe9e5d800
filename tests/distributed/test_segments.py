"""Large messages between two ranks on CPUs go in segments: the same items arrive, however many there are each way."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist

from slicewise.runtime import collectives
from slicewise.runtime.collectives import all_gather, all_to_all
from slicewise.runtime.counting import CountCollectives
from tests.distributed.test_operators import layout_changes
from tests.distributed.world import World

SEGMENT_BYTES = 16


@contextmanager
def _small_segments() -> Iterator[None]:
    usual, collectives.SEGMENT_BYTES = collectives.SEGMENT_BYTES, SEGMENT_BYTES
    try:
        yield
    finally:
        collectives.SEGMENT_BYTES = usual


@pytest.mark.parametrize("items", [(3, 10), (10, 3), (0, 7), (9, 9), (1, 1), (0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_what_is_sent_arrives(pair: World, items: tuple[int, int], dtype: torch.dtype) -> None:
    segments = pair.run(_exchange, items, dtype)
    assert segments == max(1, -(-max(items) * dtype.itemsize // SEGMENT_BYTES))


def _exchange(items: tuple[int, int], dtype: torch.dtype) -> int:
    me = dist.get_rank()
    mine, others = items[me], items[1 - me]
    sent = (torch.arange(mine) + 100 * me).to(dtype)
    received = torch.full((others,), -1, dtype=dtype)
    receives, sends = ([count * (member != me) for member in range(2)] for count in (others, mine))
    with _small_segments(), CountCollectives() as counted:
        all_to_all(received, sent, (receives, sends), None)
    assert torch.equal(received, (torch.arange(others) + 100 * (1 - me)).to(dtype))
    assert counted.sent_bytes == sent.nbytes
    return sum(counted.collectives.values())


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 5)])
def test_gathers_of_two_are_joined_as_they_were(pair: World, shape: tuple[int, ...]) -> None:
    assert pair.run(_gather, shape)


def _gather(shape: tuple[int, ...]) -> bool:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(dist.get_rank()))
    whole = all_gather(x, 2, None)
    with _small_segments(), CountCollectives() as counted:
        found = all_gather(x.transpose(0, -1), 2, None)
    expected = torch.cat([part.transpose(0, -1) for part in whole.chunk(2)])
    return bool(torch.equal(found, expected)) and counted.sent_bytes == x.nbytes


def test_layout_changes_are_adjoint_in_segments_too(pair: World) -> None:
    for forward, backward in pair.run(_layout_changes):
        assert abs(forward - backward) <= 1e-10 * max(1.0, abs(forward))


def _layout_changes() -> list[tuple[float, float]]:
    with _small_segments():
        return layout_changes(2, 60)[0]
