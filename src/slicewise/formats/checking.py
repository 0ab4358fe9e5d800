"""A document against its schema: the value, or one line that names the field, what it is and what would work.

plan.json: layers[3].shape[1] is -4; must be a whole number of at least 1
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from slicewise.errors import RequestError
from slicewise.formats.words import expected, key_type, known_names, nearest, shown, type_at

Kind = TypeVar("Kind")
Refusal = Callable[[str], RequestError]

_PLACE = re.compile(r" - at `(key` in `)?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\.\.\.)\]")
_NAMED = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_ANY = "..."  # some key of a table whose keys are free


def checked(kind: type[Kind], document: Any, origin: str, refusal: Refusal = RequestError) -> Kind:
    """`document` as `kind`."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise refusal(f"{origin}: {_complaint(kind, document, str(error))}") from error
    except UnicodeEncodeError as error:
        raise refusal(f"{origin}: has text that is not Unicode, {shown(error.object)}") from error


def check_version(document: Any, origin: str, readable: Collection[int], refusal: Refusal) -> int:
    """The document's schema_version, if this release reads it."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version not in readable:
        told = "no schema_version" if version is None else f"schema_version is {shown(version)}"
        raise refusal(f"{origin}: {told}; this release reads {' and '.join(map(str, readable))}")
    return version


def _complaint(kind: Any, document: Any, message: str) -> str:
    place = _PLACE.search(message)
    steps = _steps(place[2] if place else "")
    named = _NAMED.fullmatch(message[: place.start()] if place else message)
    if named and named[1] == "contains unknown" and not _has(document, steps, named[2]):
        # the name itself ends like a place: it stands at the top
        steps, named = [], _NAMED.fullmatch(message)
    steps = _with_keys(kind, document, steps, message)
    if named and named[1] == "missing required":
        steps = [*steps, named[2]]
        return f"{spelled(steps)} is missing; must be {expected(type_at(kind, document, steps))}"
    wanted, value = type_at(kind, document, steps), _found(document, steps)
    if named:
        known = known_names(wanted)
        where = f"{spelled(steps)}: " if steps else ""
        return f"{where}unknown field {shown(named[2])}{nearest(named[2], known)}; choose from {', '.join(known)}"
    if place and place[1]:
        key = _culprit(kind, document, steps, message)
        return f"{spelled(steps)}: the name {shown(key)} must be {expected(key_type(wanted), key)}"
    return f"{spelled(steps) or 'the content'} is {shown(value)}; must be {expected(wanted, value)}"


def _with_keys(kind: Any, document: Any, steps: list[Any], message: str) -> list[Any]:
    """The steps with the keys that the message leaves open."""
    known: list[Any] = []
    for step in steps:
        known.append(_culprit(kind, document, known, message) if step is _ANY else step)
    return known


def _has(document: Any, steps: list[Any], name: str) -> bool:
    if _ANY in steps:
        return True
    try:
        holder = _found(document, steps)
    except (LookupError, TypeError):
        return False
    return isinstance(holder, dict) and name in holder


def spelled(steps: list[Any]) -> str:
    """`["layers", 3, "shape"]` -> `layers[3].shape`."""
    text = ""
    for step in steps:
        plain = isinstance(step, str) and re.fullmatch(r"[\w+-]+", step)
        text += f".{step}" if plain else f"[{step}]" if isinstance(step, int) else f"[{shown(step)}]"
    return text.removeprefix(".")


def _steps(path: str) -> list[Any]:
    return [name or (int(number) if number else _ANY) for name, number, _ in _STEP.findall(path)]


def _found(document: Any, steps: list[Any]) -> Any:
    for step in steps:
        document = document[step]
    return document


def _culprit(kind: Any, document: Any, steps: list[Any], message: str) -> str:
    """The key of a table that the message is about: halves of the table are tried in turn."""
    table: Mapping[str, Any] = _found(document, steps)
    keys = list(table)
    while len(keys) > 1:
        half = keys[: len(keys) // 2]
        try:
            msgspec.convert(_replaced(document, steps, {key: table[key] for key in half}), kind)
            fails = False
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # what else is wrong comes after it
            fails = str(error) == message
        keys = half if fails else keys[len(keys) // 2 :]
    return keys[0]


def _replaced(document: Any, steps: list[Any], value: Any) -> Any:
    if not steps:
        return value
    copy = document.copy()
    copy[steps[0]] = _replaced(document[steps[0]], steps[1:], value)
    return copy
