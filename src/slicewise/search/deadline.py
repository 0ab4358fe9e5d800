"""A request's time is up: raised inside long work, caught where a plan and a true bound are in hand."""

import time


class TimeIsUp(Exception):
    """Never leaves the search."""


_hurried = False


def hurry(*_: object) -> None:
    """From now on every deadline of this process is over."""
    global _hurried
    _hurried = True


def over(deadline_s: float) -> bool:
    return _hurried or time.perf_counter() > deadline_s


def check(deadline_s: float) -> None:
    if over(deadline_s):
        raise TimeIsUp
