"""Numbers as people read them: 12.8 MB, 3.4 ms."""

import re

from slicewise.errors import RequestError

ROUNDING = 1e-9  # of a cost: what rounding may add up to
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SCALE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(value: float) -> str:
    """`seconds(0.0034) == '3.40 ms'`."""
    if value == 0:
        return "0"
    for unit, name in _TIME:
        if abs(value) >= unit:
            return f"{_three_digits(value / unit)} {name}"
    return f"{value / 1e-9:.2g} ns" if abs(value) >= 1e-12 else "0"  # less than any clock ticks: rounding


def amount(value: float, unit: str) -> str:
    """`amount(12_800_000, 'B') == '12.8 MB'`; decimal prefixes, as network people count."""
    if value == 0:
        return f"0 {unit}"
    for scale, prefix in _SCALE:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{_three_digits(value)} {unit}"


def parse_count(text: str) -> int:
    """`parse_count('64') == 64`; ValueError for anything but a positive whole number of at most 15 digits."""
    if not re.fullmatch(r"[1-9][0-9]{0,14}", text):
        raise ValueError(text)
    return int(text)


def parse_amount(text: str) -> float:
    """`parse_amount('8GiB') == 8 * 1024**3`, `parse_amount('16 GB') == 16e9`; ValueError for anything else."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kMGT]?)(i?)B?", text.strip())
    if not match or not float(match[1]):
        raise ValueError(text)
    number, prefix, binary = match.groups()
    scale: float = (1024 if binary else 1000) ** " kMGT".index(prefix or " ")
    return float(number) * scale


def parse_seconds(text: str) -> float:
    """`parse_seconds('5us') == 5e-6`; ValueError for anything else."""
    for unit, name in reversed(_TIME):
        number = text.strip().removesuffix(name)
        if number != text.strip() and not number.endswith(("m", "u", "n")):
            return float(number) * unit
    raise ValueError(text)


def parse_duration(text: str) -> float:
    """`parse_duration('5min') == 300`, `parse_duration('90') == 90`; ValueError for anything else."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*(s|min|h)?", text.strip())
    if not match or not float(match[1]):
        raise ValueError(text)
    return float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2] or "s"]


def bytes_of(limit: float | str | None, what: str = "memory limit") -> float | None:
    """A number, or text such as "8GiB"."""
    try:
        value = parse_amount(limit) if isinstance(limit, str) else limit
    except ValueError:
        value = 0.0
    if value is not None and not value > 0:
        raise RequestError(f"{what} must look like 8GiB, 16GB or a number of bytes (got {limit!r})")
    return value


def seconds_of(limit: float | str | None) -> float | None:
    """Of a time limit: a number, or text such as "5min"."""
    try:
        value = parse_duration(limit) if isinstance(limit, str) else limit
    except ValueError:
        value = 0.0
    if value is not None and not value > 0:
        raise RequestError(f"time limit must look like 90s, 5min, 2h or a number of seconds (got {limit!r})")
    return None if value == float("inf") else value


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"
