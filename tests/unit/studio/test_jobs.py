"""Long work runs elsewhere, tells how far it is, and ends when nobody waits for it."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from slicewise.errors import RequestError
from slicewise.studio.jobs import Jobs, Said

Tell = Callable[[str], None]


def counting(progress: Tell) -> int:
    progress("one")
    return os.getpid()


def refusing(progress: Tell) -> None:
    raise RequestError("not like this")


def dying(progress: Tell) -> None:
    os._exit(7)


class Lasting:
    """Leaves its process id in a file, and goes on for a minute."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, progress: Tell) -> None:
        self.path.write_text(str(os.getpid()))
        progress("under way")
        time.sleep(60)


async def followed(jobs: Jobs, key: str, job: Callable[[Tell], object]) -> list[Said]:
    return [said async for said in jobs.follow(key, job)]


def test_a_job_runs_in_another_process_and_is_remembered() -> None:
    async def both() -> tuple[list[Said], list[Said]]:
        jobs = Jobs()
        return await followed(jobs, "a", counting), await followed(jobs, "a", counting)

    first, second = asyncio.run(both())
    assert ("progress", "one") in first
    assert first[-1][0] == "done"
    assert first[-1][1] != os.getpid()
    assert second == [first[-1]]


def test_who_asks_for_the_same_joins_it() -> None:
    async def many() -> list[list[Said]]:
        jobs = Jobs()
        return await asyncio.gather(*(followed(jobs, "a", counting) for _ in range(5)))

    assert len({said[-1] for said in asyncio.run(many())}) == 1


def test_errors_come_back_as_words() -> None:
    assert asyncio.run(followed(Jobs(), "a", refusing))[-1] == ("error", "not like this")
    kind, told = asyncio.run(followed(Jobs(), "b", dying))[-1]
    assert (kind, "without an answer" in told) == ("error", True)


def test_who_hangs_up_ends_the_process(tmp_path: Path) -> None:
    async def left() -> None:
        jobs = Jobs()
        following = jobs.follow("a", Lasting(tmp_path / "pid"))
        async for said in following:
            if said == ("progress", "under way"):
                break
        await following.aclose()
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not _alive(int((tmp_path / "pid").read_text())):
                return
        raise AssertionError("still there")

    asyncio.run(left())


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
