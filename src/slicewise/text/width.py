"""Whether people asked for every column, however wide (`--wide`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

WIDE = ContextVar("WIDE", default=False)


@contextmanager
def every_column(asked: bool) -> Iterator[None]:
    """Within it, pages are wide if that was asked for."""
    before = WIDE.set(asked)
    try:
        yield
    finally:
        WIDE.reset(before)
