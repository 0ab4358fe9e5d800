"""What `calibrate` times is what the fit takes it for."""

import torch.distributed as dist

from slicewise.running.profiler import ITEM_BYTES, PROBES, QUICK, Members
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
