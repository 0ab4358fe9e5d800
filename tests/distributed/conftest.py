"""One world per size and file. Idle ranks still look for messages: thousands of their threads would be in the way."""

from collections.abc import Iterator

import pytest

from tests.distributed.world import World


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[int, World]]:
    running: dict[int, World] = {}
    yield running
    for world in running.values():
        world.close()


def world_of(worlds: dict[int, World], ranks: int) -> World:
    if ranks in worlds and worlds[ranks].broken:
        worlds.pop(ranks).close()
    if ranks not in worlds:
        worlds[ranks] = World(ranks)
    return worlds[ranks]


@pytest.fixture(params=[2, pytest.param(4, marks=pytest.mark.long)], ids=["2ranks", "4ranks"])
def world(request: pytest.FixtureRequest, worlds: dict[int, World]) -> World:
    return world_of(worlds, request.param)


@pytest.fixture
def pair(worlds: dict[int, World]) -> World:
    """Two ranks: enough where the claim does not depend on their number."""
    return world_of(worlds, 2)


@pytest.fixture
def quartet(worlds: dict[int, World]) -> World:
    """Four ranks: two axes."""
    return world_of(worlds, 4)
