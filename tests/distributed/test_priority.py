"""On CPUs, threads that pass messages on come before compute, where the system lets them."""

import os
import time
from pathlib import Path

import pytest

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.environment import REALTIME
from slicewise.runtime import priority
from slicewise.runtime.groups import Groups
from slicewise.runtime.priority import messages_first
from tests.distributed.world import World

USUAL, FIRST = os.SCHED_OTHER, os.SCHED_RR


def _may() -> bool:
    """Whether this process may have threads of real time."""
    try:
        os.sched_setscheduler(0, FIRST, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, USUAL, os.sched_param(0))
    return True


def _policies() -> dict[str, list[int]]:
    threads = [path for path in Path("/proc/self/task").iterdir() if path.exists()]
    names = {int(path.name): (path / "comm").read_text() for path in threads}
    of_gloo = {thread: os.sched_getscheduler(thread) for thread, name in names.items() if "gloo" in name}
    others = [os.sched_getscheduler(thread) for thread in names if thread not in of_gloo]
    return {"gloo": sorted(set(of_gloo.values())), "others": sorted(set(others))}


def _after_a_new_group() -> dict[str, list[int]]:
    messages_first()  # for the groups that tests before made
    Groups(Mesh((Axis("priority", 2, 0), Axis("other", 2, 0))), int(os.environ.get("RANK", "0"))).of((0,))
    time.sleep(0.1)  # threads name themselves
    return _policies()


def _left_alone() -> dict[str, list[int]]:
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setscheduler(int(thread.name), USUAL, os.sched_param(0))
    os.environ[REALTIME] = "0"
    try:
        messages_first()
    finally:
        del os.environ[REALTIME]
    return _policies()


@pytest.mark.skipif(not _may(), reason="needs the right to set priorities")
def test_threads_of_the_backend_come_before_compute_and_no_others(quartet: World) -> None:
    assert quartet.run(_after_a_new_group) == {"gloo": [FIRST], "others": [USUAL]}


@pytest.mark.skipif(not _may(), reason="needs the right to set priorities")
def test_who_says_so_keeps_usual_priorities(quartet: World) -> None:
    assert quartet.run(_left_alone) == {"gloo": [USUAL], "others": [USUAL]}


def test_without_the_right_everything_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def refused(thread: int, *_: object) -> None:
        asked.append(thread)
        raise PermissionError

    for thread, name in (("7", "gloo_tcp_loop"), ("8", "python")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "comm").write_text(name)
    (tmp_path / "9").mkdir()  # a thread that ended meanwhile
    monkeypatch.setattr(priority, "_THREADS", tmp_path)
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    messages_first()
    assert asked == [7]
