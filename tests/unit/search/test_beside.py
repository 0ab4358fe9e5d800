"""What is worked out in a copy of the process is what would be worked out here, in time, and nothing is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.partition.legal import Space
from slicewise.search import beside, deadline, solver
from slicewise.search.baselines import baseline_slicings
from slicewise.search.beside import Beside
from slicewise.search.candidates import candidates
from slicewise.search.deadline import over
from slicewise.search.pins import Pins
from slicewise.search.reweighting import simulated_bound
from slicewise.search.solver import Settings
from tests.builders import machine, residual_net

linux = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux alone")


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though pytest's own workers have threads."""
    monkeypatch.setattr(beside, "_can_copy", lambda: True)


def until_over(settings: Settings) -> tuple[int, float]:
    """Who looked, and for how long."""
    began_s = time.perf_counter()
    while not over(settings.deadline_s):
        time.sleep(0.01)
    return os.getpid(), time.perf_counter() - began_s


@linux
def test_the_answer_comes_from_a_process_of_its_own(copies: None) -> None:
    with Beside(lambda _: os.getpid(), Settings(), worth_it=True) as work:
        assert work.result(60.0) != os.getpid()
    assert multiprocessing.active_children() == []


@linux
def test_it_is_told_when_patience_is_out_and_gives_what_it_has(copies: None, tmp_path: Path) -> None:
    """It has no deadline of its own."""
    begun = tmp_path / "begun"

    def work(settings: Settings) -> tuple[int, float]:
        begun.touch()
        return until_over(settings)

    with Beside(work, Settings(), worth_it=True) as beside_this:
        while not begun.exists():
            time.sleep(0.01)
        where, looked_s = beside_this.result(0.1)
    assert where != os.getpid()
    assert looked_s < 60
    assert not over(time.perf_counter() + 60)  # only the copy was hurried


def test_work_without_a_deadline_is_not_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branch and bound finishes what it has opened: its bound would not hold otherwise."""
    monkeypatch.setattr(deadline, "_hurried", True)
    assert over(time.perf_counter() + 60)
    assert not over(float("inf"))


def test_without_a_copy_it_is_done_here_with_the_same_patience() -> None:
    with Beside(until_over, replace(Settings(), time_limit_s=600.0), worth_it=False) as work:
        where, looked_s = work.result(0.1)
    assert where == os.getpid()
    assert 0.1 <= looked_s < 60


@linux
def test_a_copy_that_is_killed_is_replaced_by_work_here(copies: None) -> None:
    here = os.getpid()

    def dies_elsewhere(_: Settings) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    with Beside(dies_elsewhere, Settings(), worth_it=True) as work:
        assert work.result(60.0) == here


@linux
def test_where_no_copy_can_be_had_it_is_done_here(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", full)
    with Beside(lambda _: os.getpid(), Settings(), worth_it=True) as work:
        assert work.result(60.0) == os.getpid()


@linux
def test_what_is_raised_is_raised_here(copies: None, capfd: pytest.CaptureFixture[str]) -> None:
    def fails(_: Settings) -> int:
        raise ZeroDivisionError("no such bound")

    with (
        pytest.raises(ZeroDivisionError, match="no such bound"),
        Beside(fails, Settings(), worth_it=True) as work,
    ):
        work.result(60.0)
    assert capfd.readouterr().err == ""


@linux
def test_no_copy_is_left_when_nobody_asks(copies: None) -> None:
    with Beside(until_over, Settings(), worth_it=True):
        assert len(multiprocessing.active_children()) == 1
    assert multiprocessing.active_children() == []


ENDED = """
import os, signal, sys, time
from pathlib import Path
from slicewise.search.beside import Beside
from slicewise.search.solver import Settings

def work(_):
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)

with Beside(work, Settings(), worth_it=True):
    while not Path(sys.argv[1]).exists() or not Path(sys.argv[1]).read_text():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="no core for a copy")
def test_a_copy_ends_with_a_planner_that_is_killed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ENDED, str(tmp_path / "copy")], check=False, timeout=120)
    copy = Path("/proc") / (tmp_path / "copy").read_text() / "stat"
    deadline_s = time.monotonic() + 60
    while copy.exists() and copy.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not copy.exists() or copy.read_text().rpartition(")")[2].split()[0] == "Z"


def test_no_copy_is_made_of_a_process_with_threads_or_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.delenv("RANK", raising=False)
    assert beside._can_copy()
    with monkeypatch.context() as rank:
        rank.setenv("RANK", "0")
        assert not beside._can_copy()
    with monkeypatch.context() as server:
        server.setattr(threading, "active_count", lambda: 2)
        assert not beside._can_copy()


@linux
def test_a_bound_is_the_same_from_a_copy(copies: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a residual network, looked at as if its tables were large."""
    monkeypatch.setattr(solver, "_QUICK_PAIRS", 0)
    model = AnalyticModel(residual_net(), machine(2, 2, 2))
    known = baseline_slicings(model)[0]
    bounding = partial(simulated_bound, candidates(model, Space(), known, Pins()), known, float("inf"))
    here = bounding(Settings())
    with Beside(bounding, Settings(), worth_it=True) as work:
        copied = work.result(120.0)
    assert (copied.lower_s, tuple(copied.plan)) == (here.lower_s, tuple(here.plan))
    assert all(map(np.array_equal, copied.of_choice, here.of_choice))
