"""What is installed of what slicewise asks for, as its own metadata lists it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_REQUIREMENT = re.compile(r"([\w.-]+)\s*([^;]*?)\s*(?:;\s*extra == [\"']([\w-]+)[\"'])?")
_RULE = re.compile(r"(>=|<=|==|!=|<|>|~=)\s*([\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """`extra`: who asks for it, "" where slicewise itself does. `version`: None where it is not installed."""

    name: str
    wanted: str
    extra: str
    version: str | None

    @property
    def fits(self) -> bool:
        return self.version is not None and _satisfies(self.version, self.wanted)


def packages() -> list[Package]:
    """Of slicewise and of its extras but `dev`; none where slicewise was never installed, only put on the path."""
    try:
        listed = requires("slicewise") or []
    except PackageNotFoundError:
        return []
    return [package for package in map(_read, listed) if package.extra != "dev"]


def _read(requirement: str) -> Package:
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None, requirement
    name, wanted, extra = match.groups()
    try:
        found: str | None = version(name)
    except PackageNotFoundError:
        found = None
    return Package(name=name, wanted=wanted, extra=extra or "", version=found)


def _satisfies(found: str, wanted: str) -> bool:
    """`2.13.0+cpu` is at least 2.9: numbers are compared one by one, what follows `+` or a letter does not count."""
    mine = tuple(_numbers(found))
    for sign, text in _RULE.findall(wanted):
        limit = tuple(_numbers(text))
        length = max(len(mine), len(limit))
        left, right = (numbers + (0,) * (length - len(numbers)) for numbers in (mine, limit))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "<": left < right,
            ">": left > right,
            "==": left == right,
            "!=": left != right,
            "~=": left >= right and mine[: len(limit) - 1] == limit[:-1],
        }
        if not holds[sign]:
            return False
    return True


def _numbers(text: str) -> Iterator[int]:
    for part in text.partition("+")[0].split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            return
        yield int(digits[0])
        if digits[0] != part:
            return
