"""Latency and rate of a link, from messages whose times are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.running.link_fit import fitted_link

QUICK = [4 * 2**10, 256 * 2**10, 4 * 2**20, 16 * 2**20]


@given(st.floats(1e-6, 1e-3), st.floats(1e7, 1e11))
def test_a_straight_line_is_found(latency_s: float, bytes_per_s: float) -> None:
    found = fitted_link(QUICK, [latency_s + size / bytes_per_s for size in QUICK])
    link = found.link
    assert not found.burst_bytes
    assert link.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert link.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-6)


@given(st.floats(2e7, 2e8), st.integers(2**15, 2**21))
def test_bursts_that_a_shaped_link_lets_through_do_not_make_it_faster(rate: float, burst: int) -> None:
    seconds = [1e-4 + size / 2e9 + max(0, size - burst) / rate for size in QUICK]
    found = fitted_link(QUICK, seconds)
    link = found.link
    assert max((size for size in QUICK[1:] if size <= burst), default=0) <= found.burst_bytes <= 2 * burst
    assert link.latency_s + QUICK[-1] / link.bytes_per_s == pytest.approx(seconds[-1], rel=0.25)


def test_one_slow_small_message_does_not_bend_the_line() -> None:
    found = fitted_link(QUICK, [1e-4, 9e-4, 4.1e-3, 16.1e-3])
    link = found.link
    assert not found.burst_bytes
    assert 16 * 2**20 / link.bytes_per_s == pytest.approx(16e-3, rel=0.15)
