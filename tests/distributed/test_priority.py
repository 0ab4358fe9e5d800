"""On CPUs, threads that pass messages on come before compute, where the system lets them."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch.distributed as dist

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.environment import REALTIME
from slicewise.runtime import priority
from slicewise.runtime.groups import Groups
from slicewise.runtime.priority import as_usual, messages_first
from tests.distributed.world import World

Policies = dict[str, list[int]]
USUAL: Policies = {"gloo_tcp_loop": [0], "pt_gloo_runloop": [0], "others": [0]}
FIRST: Policies = {"gloo_tcp_loop": [1], "pt_gloo_runloop": [1], "others": [0]}


def _may() -> bool:
    """Whether this process may have threads of real time."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def _policies() -> dict[str, list[int]]:
    """By name of a thread: its priority, 0 for the usual one."""
    found: dict[str, set[int]] = {"others": set()}
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").exists():
            name = (thread / "comm").read_text().strip()
            priority = os.sched_getparam(int(thread.name)).sched_priority
            found.setdefault(name if "gloo" in name else "others", set()).add(priority)
    return {name: sorted(priorities) for name, priorities in found.items()}


def _usual() -> None:
    with suppress(PermissionError):
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_OTHER, os.sched_param(0))
    priority._wish.first = False


def _first() -> dict[str, Policies]:
    rank = dist.get_rank()
    Groups(Mesh((Axis("early", 2, 0), Axis("other", 2, 0))), rank).of((0,))
    time.sleep(0.1)  # threads name themselves
    before = _policies()
    messages_first()
    Groups(Mesh((Axis("late", 2, 0), Axis("another", 2, 0))), rank).of((1,))  # a group that is made later
    after = _policies()
    with as_usual():
        inside = _policies()
    again = _policies()
    _usual()
    return {"before": before, "after": after, "inside": inside, "again": again}


def _left_alone() -> Policies:
    os.environ[REALTIME] = "0"
    try:
        messages_first()
    finally:
        del os.environ[REALTIME]
    return _policies()


@pytest.mark.skipif(not _may(), reason="needs the right to set priorities")
def test_threads_of_the_backend_come_before_compute_but_for_messages_one_by_one(quartet: World) -> None:
    assert quartet.run(_first) == {"before": USUAL, "after": FIRST, "inside": USUAL, "again": FIRST}


def test_who_says_so_keeps_usual_priorities(quartet: World) -> None:
    assert quartet.run(_left_alone) == USUAL


def test_without_the_right_everything_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def refused(thread: int, *_: object) -> None:
        asked.append(thread)
        raise PermissionError

    for thread, name in (("7", "gloo_tcp_loop"), ("8", "python")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "comm").write_text(f"{name}\n")
    (tmp_path / "9").mkdir()  # a thread that ended meanwhile
    monkeypatch.setattr(priority, "_THREADS", tmp_path)
    monkeypatch.setattr(priority, "_wish", priority._Wish())
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    messages_first()
    assert asked == [7]
