"""Many inputs, one claim: each works, or is refused in one line, in little time and memory."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from slicewise.errors import SlicewiseError

LONGEST_S = 10.0  # of the processor's time: others may use the machine too
MOST_BYTES = 4 * 2**30


def sizes(short: int, long: int, parts: int = 1) -> pytest.MarkDecorator:
    """`inputs` for `make test`, and for the long campaign many more, in parts that each begin elsewhere."""
    marks = (pytest.mark.long, pytest.mark.timeout(3600))
    campaign = [
        pytest.param(long // parts, part, marks=marks, id=f"{long // parts}-{part}") for part in range(1, parts + 1)
    ]
    return pytest.mark.parametrize(("inputs", "begin"), [pytest.param(short, 0, id=str(short)), *campaign])


def campaign(inputs: int, begin: int, given_inputs: st.SearchStrategy[Any], use: Callable[[Any], object]) -> None:
    """Use so many inputs; each must work or be refused."""

    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=(Phase.generate,),  # what was changed says more than a smaller input
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @seed(begin)
    @given(given_inputs)
    def settles(value: Any) -> None:
        settled(lambda: use(value))

    with _limited_memory():
        settles()


def settled(use: Callable[[], object]) -> SlicewiseError | None:
    """None where it works; the error where it is refused, in one line with exit code 1 or 2."""
    refused: SlicewiseError | None = None
    begun_s = time.process_time()
    try:
        use()
    except SlicewiseError as error:
        refused = error
    assert time.process_time() - begun_s < LONGEST_S
    if refused is not None:
        assert refused.exit_code in (1, 2), refused
        assert str(refused).isprintable(), repr(str(refused))
        assert str(refused)
    return refused


@contextmanager
def _limited_memory() -> Iterator[None]:
    """No more than `MOST_BYTES` on top of what the process has: beyond, allocations fail."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
