"""Documents that were valid once: fields gone, doubled, renamed, of another type, or absurd."""

import copy
import gzip
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    0, 1, 2, 3, 5, 7, -1, -4, 0.5, 2.0, 16.7, 1e-320, 1e300, -1e300, 10**9, 10**15, 2**31, 2**63, 10**30,
    math.inf, -math.inf, math.nan,
)  # fmt: skip
WORDS = (
    "",
    "no",
    "true",
    "N",
    "F",
    "C",
    "H",
    "W",
    ".",
    "n",
    "NFHW",
    "a\nb",
    "\x1b[31m",
    "\u2028",
    "x" * 3000,
    "é",
    "\U0001f600",
    "0",
    "-4",
)
PLAIN: tuple[Any, ...] = (None, True, False, [], {}, [[]], [0], {"a": 1}, [None], *NUMBERS, *WORDS)


def deep(levels: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


VALUES = (*PLAIN, deep(30, "list"), deep(30, "table"), deep(400, "list"), list(range(200)))


def paths(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    found = [prefix] if prefix else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found += paths(value, (*prefix, key))
    return found


class Mutant:
    """A changed document; printed as what was changed."""

    def __init__(self, document: Any, changes: list[str]) -> None:
        self.document, self.changes = document, changes

    def __repr__(self) -> str:
        return "; ".join(self.changes)


@st.composite
def mutated(draw: st.DrawFn, documents: Sequence[Any]) -> Mutant:
    """One of the documents with one to three things wrong."""
    number = draw(st.integers(0, len(documents) - 1))
    document = copy.deepcopy(documents[number])
    changes = [f"document {number}"]
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        places = paths(document)
        if not places:
            break
        *steps, last = places[draw(st.integers(0, len(places) - 1))]
        holder = document
        for step in steps:
            holder = holder[step]
        change = draw(st.sampled_from(CHANGES))
        change(draw, holder, last, document)
        now = holder.get(last) if isinstance(holder, dict) else holder[last : last + 1]
        changes.append(f"{change.__name__} {[*steps, last]}: now {now!r:.200}")
    return Mutant(document, changes)


def _remove(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    del holder[last]


def _replace(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    holder[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))


def _nudge(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    """A number near the one that stands there, or text near it: what looks right is hardest to refuse."""
    value = holder[last]
    if isinstance(value, bool):
        holder[last] = not value
    elif isinstance(value, (int, float)):
        holder[last] = draw(
            st.sampled_from((value + 1, value - 1, -value, 2 * value, value * 1000, value / 2, str(value)))
        )
    elif isinstance(value, str):
        holder[last] = draw(st.sampled_from((value[1:], value + "x", value[::-1], value.upper(), value.lower())))
    elif isinstance(value, list):
        holder[last] = draw(st.sampled_from((value[1:], value[:-1], value + value, value[::-1])))


def _move(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    """Another part of the document in its place."""
    places = paths(document)
    source = document
    for step in places[draw(st.integers(0, len(places) - 1))]:
        source = source[step]
    holder[last] = copy.deepcopy(source)


def _rename(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    name = draw(st.sampled_from(("x", "shape", "layers", str(last) + "s", "schema_version", "name")))
    if isinstance(holder, dict):
        holder[name] = holder.pop(last)
    else:
        holder.append(copy.deepcopy(holder[last]))


def _add(draw: st.DrawFn, holder: Any, last: Any, document: Any) -> None:
    value = copy.deepcopy(draw(st.sampled_from(VALUES)))
    if isinstance(holder, dict):
        holder[draw(st.sampled_from(("x", "", "comment", "\ud800", "a\nb", "N", "H")))] = value
    else:
        holder.insert(0, value)


Change = Callable[[st.DrawFn, Any, Any, Any], None]
CHANGES: tuple[Change, ...] = (_remove, _replace, _replace, _nudge, _nudge, _nudge, _move, _rename, _add)


CELLS = (
    "",
    " ",
    "0",
    "-1",
    "nan",
    "inf",
    "1e400",
    "16.7",
    "1e-320",
    "9" * 5000,
    "²",
    "１",
    "x",
    '"',
    "a,b",
    "\x00",
    "4x",
    "0x4",
)


@st.composite
def tables(draw: st.DrawFn, texts: Sequence[str]) -> str:
    """CSV with cells replaced, rows doubled or cut, columns renamed."""
    rows = [line.split(",") for line in draw(st.sampled_from(texts)).splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(rows) - 1)) if draw(st.booleans()) else 0
        column = draw(st.integers(0, len(rows[row]) - 1)) if rows[row] else 0
        match draw(st.integers(0, 5)):
            case 0 | 1:
                rows[row][column : column + 1] = [draw(st.sampled_from(CELLS))]
            case 2:
                del rows[row][column:]
            case 3:
                rows.insert(row, list(rows[draw(st.integers(0, len(rows) - 1))]))
            case 4:
                rows[row] += [draw(st.sampled_from(CELLS))]
            case _:
                for line in rows:
                    del line[column : column + 1]
    return draw(st.sampled_from(("\n", "\r\n", "\r"))).join(",".join(row) for row in rows)


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


@st.composite
def damaged(draw: st.DrawFn, contents: Sequence[bytes]) -> bytes:
    """Bytes cut short, overwritten, inserted, doubled; compressed well or badly; or nothing but noise."""
    content = draw(st.sampled_from(contents))
    place = draw(st.integers(0, len(content)))
    noise = draw(st.binary(min_size=1, max_size=8))
    match draw(st.integers(0, 7)):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + noise + content[place + len(noise) :]
        case 2:
            return content[:place] + noise + content[place:]
        case 3:
            return content + content[place:]
        case 4:
            packed = gzip.compress(content, 1)
            return packed[: draw(st.integers(0, len(packed)))]
        case 5:
            packed = gzip.compress(content, 1)
            spot = draw(st.integers(0, len(packed) - 1))
            return packed[:spot] + noise + packed[spot + len(noise) :]
        case 6:
            return draw(
                st.sampled_from((b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe\x00", b"\x1f\x8b", b"NaN", b"", b"\n\n"))
            )
        case _:
            return draw(st.binary(max_size=64))
