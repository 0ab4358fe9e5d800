"""One world per size, for the whole test session."""

from collections.abc import Iterator

import pytest

from tests.distributed.world import World


@pytest.fixture(scope="session")
def worlds() -> Iterator[dict[int, World]]:
    running: dict[int, World] = {}
    yield running
    for world in running.values():
        world.close()


def _world(worlds: dict[int, World], ranks: int) -> World:
    if ranks not in worlds or worlds[ranks].broken:
        worlds[ranks] = World(ranks)
    return worlds[ranks]


@pytest.fixture(params=[2, 4], ids=["2ranks", "4ranks"])
def world(request: pytest.FixtureRequest, worlds: dict[int, World]) -> World:
    return _world(worlds, request.param)


@pytest.fixture
def pair(worlds: dict[int, World]) -> World:
    """Two ranks: enough where the claim does not depend on their number."""
    return _world(worlds, 2)
