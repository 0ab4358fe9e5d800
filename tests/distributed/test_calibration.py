"""What `calibrate` times is what the fit takes it for."""

import time
from collections.abc import Callable
from mmap import PAGESIZE, mmap

import torch
import torch.distributed as dist

from slicewise.cost.measured import MeasuredModel
from slicewise.graph.dims import Dim
from slicewise.graph.sources import load_graph
from slicewise.running.layer_timing import Timer
from slicewise.running.link_probes import ITEM_BYTES, PROBES, Members, message_seconds
from slicewise.running.profiler import QUICK
from slicewise.running.stopwatch import passes_s, settled, until_settled
from slicewise.runtime.counting import CountCollectives
from tests.builders import machine
from tests.distributed.world import World


def test_a_timed_collective_moves_the_bytes_that_its_line_is_fitted_over(pair: World, quartet: World) -> None:
    for world in (pair, quartet):
        for op, sent in world.run(_moved).items():
            turns = 2 if PROBES[op].pairs else 1  # what comes back is the other's, and takes as long again
            assert [turns * size for size in sent] == [
                PROBES[op].moved_bytes(size, world.ranks) for size in QUICK.message_bytes
            ], op


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
    assert often[0] == often[1] >= 1 + 3 + 21
    assert seldom[0] == seldom[1] <= 12 + 3  # where it takes long on one rank, both agree that it does


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


def test_all_ranks_warm_up_until_each_of_them_finds_its_memory(pair: World) -> None:
    assert pair.run(_calls_to_settle, 3) == [3 + 1] * 2
    assert pair.run(_calls_to_settle, 100) == [12] * 2  # what never settles is measured as it is


def test_a_repeat_that_touches_new_memory_does_not_count(pair: World) -> None:
    assert pair.run(_counted) == [1, 4, 5]


def _calls_to_settle(cold_calls: int) -> list[int]:
    """On the second rank, so many calls touch memory that nobody has touched."""
    run = _Cold(lambda call: call <= cold_calls)
    until_settled(lambda: None)
    until_settled(run)
    every = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(every, torch.tensor([float(run.calls)]))
    return [int(count) for count in every]


def _counted() -> list[int]:
    until_settled(lambda: None)
    return settled(_Cold(lambda call: call in (2, 3)), 3)


class _Cold:
    """Tells how often it was called; where `cold(call)`, the second rank touches memory that nobody has touched."""

    def __init__(self, cold: Callable[[int], bool]) -> None:
        self.calls, self._cold = 0, cold
        self._kept: list[mmap] = []

    def __call__(self) -> int:
        self.calls += 1
        if dist.get_rank() == 1 and self._cold(self.calls):
            fresh = mmap(-1, 256 * PAGESIZE)
            fresh.write(b"1" * 256 * PAGESIZE)
            self._kept.append(fresh)
        return self.calls


def test_layers_are_timed_in_rounds_and_told_after_each(pair: World) -> None:
    told = pair.run(_layer_times, 60.0)
    assert [name for name, _ in told] == [*_TIMED] * 4  # three rounds, then what all of them say
    assert all(seconds > 0 for _, seconds in told)


def test_a_budget_that_is_used_up_ends_the_timing_of_layers(pair: World) -> None:
    assert pair.run(_layer_times, 0.0) == []


_TIMED = ("features.0", "classifier.0")


def _layer_times(budget_s: float) -> list[tuple[str, float]]:
    model = MeasuredModel(load_graph("lenet5").with_batch(8), machine(2))
    layers = [(name, name, (Dim.N,)) for name in _TIMED]
    timer = Timer(model=model, device=torch.device("cpu"))
    return [(key, found.forward_s) for key, found in timer.times(layers, budget_s)]


def test_messages_are_timed_by_probe_and_size_alike_on_every_rank(pair: World) -> None:
    small, large = pair.run(_message_seconds)
    assert 0 < small < large


def _message_seconds() -> list[float]:
    return message_seconds([PROBES["bucket"]], [4 * 2**10, 16 * 2**20], Members(size=dist.get_world_size()), rounds=3)
