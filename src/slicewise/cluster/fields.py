"""Typed fields of a TOML table; every error names the file, the table and the field."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

from slicewise.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """`Fields.parse(text, "mine.toml").table("device").positive("kernel_s")`."""

    values: Mapping[str, Any]
    origin: str  # the file
    path: str = ""  # the table in it

    @classmethod
    def parse(cls, text: str, origin: str) -> "Fields":
        try:
            return cls(values=tomllib.loads(text), origin=origin)
        except tomllib.TOMLDecodeError as error:
            raise ClusterError(f"{origin}: not TOML ({error})") from error

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def fail(self, complaint: str) -> NoReturn:
        raise ClusterError(f"{self.origin}: {self.path}: {complaint}" if self.path else f"{self.origin}: {complaint}")

    def check_names(self, known: Collection[str], what: str = "field") -> None:
        for name in self.values:
            if name not in known:
                self.fail(f"unknown {what} {name!r}; choose from {', '.join(known)}")

    def table(self, name: str) -> "Fields":
        return self._inner(self._typed(name, dict, "a table"), name)

    def tables(self, name: str) -> list["Fields"]:
        items = self.values.get(name) or self.fail(f"{name} is missing")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self.fail(f"{name} must be a list of tables, each under [[{name}]]")
        return [self._inner(item, f"{name}[{position}]") for position, item in enumerate(items)]

    def text(self, name: str) -> str:
        value: str = self._typed(name, str, "text, in quotes")
        return value

    def positive(self, name: str) -> float:
        value = self.values.get(name)
        if value is None:
            self.fail(f"{name} is missing")
        if not _number(value) or value <= 0:
            self.fail(f"{name} must be a positive number (got {value!r})")
        return float(value)

    def whole(self, name: str) -> int:
        value = self.positive(name)
        if not value.is_integer():
            self.fail(f"{name} must be a whole number (got {value!r})")
        return int(value)

    def share(self, name: str) -> float:
        value: Any = self.values.get(name)
        if not _number(value) or not 0 <= value <= 1:
            self.fail(f"{name} must be a number from 0 to 1 (got {value!r})")
        return float(value)

    def three(self, name: str) -> tuple[float, float, float]:
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != 3 or not all(_number(item) and item >= 0 for item in value):
            self.fail(f"{name} must be three numbers >= 0 (got {value!r})")
        return float(value[0]), float(value[1]), float(value[2])

    def _typed(self, name: str, kind: type, spelled: str) -> Any:
        value = self.values.get(name)
        if value is None:
            self.fail(f"{name} is missing")
        if not isinstance(value, kind):
            self.fail(f"{name} must be {spelled} (got {value!r})")
        return value

    def _inner(self, values: Mapping[str, Any], name: str) -> "Fields":
        return Fields(values=values, origin=self.origin, path=f"{self.path}.{name}" if self.path else name)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
