"""A request's time is up: raised inside long work, caught where a plan and a true bound are in hand."""

import time


class TimeIsUp(Exception):
    """Never leaves the search."""


def check(deadline_s: float) -> None:
    if time.perf_counter() > deadline_s:
        raise TimeIsUp
