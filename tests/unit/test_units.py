import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.units import amount, seconds

_FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0034, "3.40 ms"),
        (1.0, "1.00 s"),
        (0.9996, "1.00 s"),
        (0.9994, "999 ms"),
        (12.345, "12.3 s"),
        (4321.0, "4,321 s"),
        (5e-6, "5.00 us"),
        (250e-9, "250 ns"),
        (1e-12, "0.001 ns"),
        (1e-17, "0"),
        (-0.02, "-20.0 ms"),
    ],
)
def test_seconds_read_as_people_say_them(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (12, "12.0 B"), (12_800_000, "12.8 MB"), (1_500, "1.50 kB"), (2e9, "2.00 GB"), (3e12, "3.00 TB")],
)
def test_amounts_use_decimal_prefixes(value: float, text: str) -> None:
    assert amount(value, "B") == text


@given(st.floats(1e-8, 1e5))
def test_seconds_read_back_within_half_a_percent(value: float) -> None:
    number, unit = seconds(value).split()
    assert float(number.replace(",", "")) * _FACTORS[unit] == pytest.approx(value, rel=0.0051)


@given(st.floats(1, 1e15))
def test_amounts_read_back_within_half_a_percent(value: float) -> None:
    number, unit = amount(value, "B").split()
    assert float(number.replace(",", "")) * _FACTORS[unit] == pytest.approx(value, rel=0.0051)
