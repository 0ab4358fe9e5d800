"""What `calibrate` times is what the fit takes it for."""

import time

import torch
import torch.distributed as dist

from slicewise.running.profiler import ITEM_BYTES, PROBES, QUICK, Members
from slicewise.running.stopwatch import passes_s
from slicewise.runtime.counting import CountCollectives
from tests.distributed.world import World


def test_a_timed_collective_moves_the_bytes_that_its_line_is_fitted_over(pair: World, quartet: World) -> None:
    for world in (pair, quartet):
        for op, sent in world.run(_moved).items():
            assert sent == [PROBES[op].moved_bytes(size, world.ranks) for size in QUICK.message_bytes], op


def _moved() -> dict[str, list[float]]:
    members = Members(size=dist.get_world_size())
    moved: dict[str, list[float]] = {op: [] for op in PROBES}
    for op, probe in PROBES.items():
        for size in QUICK.message_bytes:
            collective = probe.make(size // ITEM_BYTES, members)
            with CountCollectives() as counted:
                collective()
            moved[op].append(counted.sent_bytes)
    return moved


def test_short_layers_are_timed_in_a_row_as_often_on_every_rank(pair: World) -> None:
    often, seldom = pair.run(_times_called, 0.0), pair.run(_times_called, 0.004)
    assert often == [1 + 3 + 21] * 2
    assert seldom == [1 + 3] * 2  # where it takes long on one rank, both agree that it does


def _times_called(second_rank_s: float) -> list[int]:
    calls = torch.zeros(1)
    leaf = torch.ones(2, requires_grad=True)

    def run(x: torch.Tensor) -> torch.Tensor:
        calls.add_(1)
        time.sleep(second_rank_s * dist.get_rank())
        return x * 2

    passes_s(run, [leaf], 3, prepare=lambda: leaf)
    every = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(every, calls)
    return [int(count) for count in every]
