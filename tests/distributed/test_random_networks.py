"""Random networks under random plans on random meshes of 2 to 8 ranks: the numbers of one device, or of DDP."""

import random
import warnings

import pytest
import torch

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.chunks import with_local_statistics
from tests.by_chunk import by_chunk
from tests.distributed.comparing import Truth, compare, last_bit, random_slicings
from tests.distributed.conftest import world_of
from tests.distributed.random_networks import random_network
from tests.distributed.world import World

TOLERANCE = 1e-10
AMPLIFIED = 100  # times what one device makes of the last bit of its input

# ranks -> how they may be arranged in tiers, and how many networks are tried
MESHES: dict[int, list[tuple[int, ...]]] = {
    2: [(2,)],
    3: [(3,)],
    4: [(4,), (2, 2)],
    6: [(6,), (2, 3), (3, 2)],
    8: [(8,), (2, 4), (4, 2), (2, 2, 2)],
}
COUNTS = {2: 8, 3: 3, 4: 4}
LONG = {2: 300, 3: 200, 4: 250, 5: 70, 6: 80, 7: 40, 8: 60}  # 1,000
AT_ONCE = 5


@pytest.mark.parametrize("ranks", COUNTS)
def test_random_networks_equal_one_device_under_random_plans(ranks: int, worlds: dict[int, World]) -> None:
    assert world_of(worlds, ranks).run(_wrong, ranks, range(COUNTS[ranks])) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ranks", LONG)
def test_many_random_networks_equal_one_device_under_random_plans(ranks: int, worlds: dict[int, World]) -> None:
    world = world_of(worlds, ranks)
    for first in range(1000, 1000 + LONG[ranks], AT_ONCE):
        assert world.run(_wrong, ranks, range(first, first + AT_ONCE)) == []


def _wrong(ranks: int, seeds: range) -> list[str]:
    return [told for seed in seeds if (told := _told(ranks, 1000 * ranks + seed))]


def _told(ranks: int, seed: int) -> str:
    """What is wrong with the network of this seed; nothing if all is well."""
    chooser = random.Random(seed)
    model, shape, batch = random_network(seed)
    sizes = chooser.choice(MESHES.get(ranks, [(ranks,)]))
    mesh = Mesh.of({f"tier{level}": size for level, size in enumerate(sizes)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)
        graph = capture(model, torch.zeros(2, *shape)).with_batch(batch)
    if seed % 3 == 0:  # batch norms as under DDP, on as many samples per rank as the others have in all
        batch = batch * ranks - chooser.randint(0, 1)
        graph, model = with_local_statistics(graph.with_batch(batch), ranks), by_chunk(model, ranks)
    slicings = random_slicings(graph, mesh, seed)
    case = f"random_network({seed}), batch {batch}, mesh {sizes}, slicings {slicings}, {model}"
    try:
        difference = compare(model, graph, slicings, mesh, truth=Truth.of(model, graph, seed))
    except Exception as error:
        error.add_note(case)
        raise
    if difference.below(TOLERANCE):
        return ""
    # two norms in a row, say, have gradients that are sums of large terms that cancel
    rounding = last_bit(model, graph, seed)
    allowed = AMPLIFIED * max(rounding.output, rounding.gradient, rounding.state)
    return "" if difference.below(allowed) else f"{difference}; one device, last bit: {rounding}; {case}"
