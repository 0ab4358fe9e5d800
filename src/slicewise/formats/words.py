"""Types and values as people read them: "a whole number of at least 1", "true or false"."""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import inspect

from slicewise.formats.schema import SHORTEST_S, SMALLEST

_LONGEST = 60  # of a value that is repeated
_CONSTANTS = {None: "null", True: "true", False: "false"}  # as JSON and TOML spell them


def shown(value: Any) -> str:
    """A value on one line, shortened where it is long."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return "a number of more than 60 digits"
    text = _CONSTANTS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(name: str, known: Collection[str]) -> str:
    """` (did you mean shape?)`, or nothing."""
    from difflib import get_close_matches  # only where something is wrong

    found = get_close_matches(name[:100], known, 1, 0.75)
    return f" (did you mean {found[0]}?)" if found else ""


def type_at(kind: Any, document: Any, steps: Sequence[Any]) -> inspect.Type:
    """The type of what stands at `steps` of a document."""
    found = inspect.type_info(kind)
    for step in steps:
        found = _fitting(found, document)
        if isinstance(found, inspect.StructType):
            found = next(field.type for field in found.fields if field.encode_name == step)
        elif isinstance(found, inspect.DictType):
            found = found.value_type
        elif isinstance(found, inspect.TupleType):
            found = found.item_types[step]
        else:
            assert isinstance(found, (inspect.ListType, inspect.VarTupleType))
            found = found.item_type
        document = document[step] if isinstance(document, list) or step in document else None
    return _fitting(found, document)


def known_names(kind: inspect.Type) -> list[str]:
    assert isinstance(kind, inspect.StructType)
    return [field.encode_name for field in kind.fields]


def key_type(kind: inspect.Type) -> inspect.Type:
    assert isinstance(kind, inspect.DictType)
    return kind.key_type


def expected(kind: inspect.Type, value: Any = None) -> str:
    """What a value of a type must be; of bounds that which `value` breaks."""
    if isinstance(kind, inspect.Metadata):
        return expected(kind.type, value)
    if isinstance(kind, inspect.UnionType):
        if any(isinstance(item, inspect.BoolType) for item in kind.types):  # a Note
            return "a finite number, text, true, false or null"
        return " or ".join(expected(item, value) for item in kind.types)
    if isinstance(kind, (inspect.IntType, inspect.FloatType)):
        return f"a {'whole ' * isinstance(kind, inspect.IntType)}number{_bounds(kind, value)}"
    if isinstance(kind, inspect.StrType):
        return _text(kind, value)
    if isinstance(kind, (inspect.LiteralType, inspect.EnumType)):
        values = kind.values if isinstance(kind, inspect.LiteralType) else [item.value for item in kind.cls]
        return f"one of {', '.join(map(str, values))}"
    if isinstance(kind, inspect.TupleType):
        return f"a list of {len(kind.item_types)}"
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return _list(kind, value)
    plain = {inspect.BoolType: "true or false", inspect.NoneType: "null"}
    return plain.get(type(kind), "a table")


def _bounds(kind: inspect.IntType | inspect.FloatType, value: Any) -> str:
    low, high = kind.ge, kind.le
    if (low, high) == (0, 1):
        return " from 0 to 1"
    if high is not None and isinstance(value, (int, float)) and value > high:
        return f" of at most {high:,}"
    if low in (SMALLEST, SHORTEST_S) and not (isinstance(value, float) and value > 0):
        return " above 0"
    return "" if low is None else f" of at least {low:g}"


def _text(kind: inspect.StrType, value: Any) -> str:
    if isinstance(value, str) and kind.max_length is not None and len(value) > kind.max_length:
        return f"text of at most {kind.max_length} characters"
    return "text that is not empty" if value == "" else "text on one line" if isinstance(value, str) else "text"


def _list(kind: inspect.ListType | inspect.VarTupleType, value: Any) -> str:
    if isinstance(value, list) and kind.max_length is not None and len(value) > kind.max_length:
        return f"a list of at most {kind.max_length}"
    return f"a list of at least {kind.min_length}" if kind.min_length else "a list"


def _fitting(kind: inspect.Type, value: Any) -> inspect.Type:
    """Of a union, the member that a table or list is meant as."""
    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        tables = (inspect.StructType, inspect.DictType)
        lists = (inspect.ListType, inspect.VarTupleType, inspect.TupleType)
        wanted: tuple[type, ...] = tables if isinstance(value, dict) else lists if isinstance(value, list) else ()
        return next((item for item in kind.types if isinstance(item, wanted)), kind)
    return kind
