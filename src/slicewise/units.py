"""Numbers as people read them: 12.8 MB, 3.4 ms."""

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SCALE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(value: float) -> str:
    """`seconds(0.0034) == '3.40 ms'`."""
    if value == 0:
        return "0"
    for unit, name in _TIME:
        if abs(value) >= unit:
            return f"{_three_digits(value / unit)} {name}"
    return f"{value:.1e} s"


def amount(value: float, unit: str) -> str:
    """`amount(12_800_000, 'B') == '12.8 MB'`; decimal prefixes, as network people count."""
    if value == 0:
        return f"0 {unit}"
    for scale, prefix in _SCALE:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{_three_digits(value)} {unit}"


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"
