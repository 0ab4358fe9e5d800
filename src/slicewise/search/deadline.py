"""A request's time is up: raised inside long work, caught where a plan and a true bound are in hand."""

import time


class TimeIsUp(Exception):
    """Never leaves the search."""


_hurried = False


def hurry(*_: object) -> None:
    """From now on every deadline of this process is over; work that has none goes on to its end."""
    global _hurried
    _hurried = True


def over(deadline_s: float) -> bool:
    return time.perf_counter() > deadline_s or (_hurried and deadline_s < float("inf"))


def check(deadline_s: float) -> None:
    if over(deadline_s):
        raise TimeIsUp
