"""From a file to its text, and from text to a document; whatever is in the file, in bounded memory."""

import csv
import gzip
import io
import json
import tomllib
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from slicewise.formats.checking import Refusal
from slicewise.formats.words import shown

LARGEST_BYTES = 256 * 2**20  # of any file, decompressed
LARGEST_TOML_BYTES, LONGEST_TOML_LINE = 2**18, 1000  # a file that people write
MOST_VALUES = 30_000_000  # in memory, the smallest takes 70 bytes

_GZIP = b"\x1f\x8b"


def read_text(path: Path, refusal: Refusal, what: str, *, largest_bytes: int = LARGEST_BYTES) -> str:
    """The text of a file, compressed or not; `what` it should be is said where it is none."""
    try:
        with path.open("rb") as file:
            content = file.read(largest_bytes + 1)
    except FileNotFoundError as error:
        raise refusal(f"{path}: no such file") from error
    content = decompressed(content, str(path), refusal, what, largest_bytes=largest_bytes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal(f"{path}: not {what} (not UTF-8 text: {error.reason})") from error


def decompressed(content: bytes, origin: str, refusal: Refusal, what: str, *, largest_bytes: int) -> bytes:
    """What a file holds, compressed or not, up to `largest_bytes`."""
    if content.startswith(_GZIP):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(largest_bytes + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise refusal(f"{origin}: compressed, and damaged ({error})") from error
    if len(content) > largest_bytes:
        raise refusal(f"{origin}: larger than {largest_bytes / 2**20:g} MiB, the most that is read of {what}")
    return content


def parse_json(text: str, origin: str, refusal: Refusal) -> Any:
    """JSON in which no object has a name twice. Infinity and NaN are read: arguments of operators may be so."""
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise refusal(f"{origin}: more than {MOST_VALUES:,} values, the most that are read")
    try:
        return json.loads(text, object_pairs_hook=_once)
    except _Twice as error:
        raise refusal(f"{origin}: field {error} stands twice in one table; leave one of them") from error
    except RecursionError as error:
        raise refusal(f"{origin}: nested too deeply to have a meaning") from error
    except ValueError as error:
        raise refusal(f"{origin}: not JSON ({error})") from error


def parse_toml(text: str, origin: str, refusal: Refusal) -> dict[str, Any]:
    """TOML; 16e9 is a whole number too."""
    longest = max(text.split("\n"), key=len)
    if len(longest) > LONGEST_TOML_LINE:  # tomllib takes a name of n parts apart in n * n steps
        raise refusal(f"{origin}: a line of {len(longest):,} characters; at most {LONGEST_TOML_LINE:,} are read")
    try:
        return tomllib.loads(text, parse_float=_number)
    except RecursionError as error:
        raise refusal(f"{origin}: nested too deeply to have a meaning") from error
    except ValueError as error:
        raise refusal(f"{origin}: not TOML ({error})") from error


def parse_csv(text: str, origin: str, refusal: Refusal) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its line; cells without the blanks around them."""
    reader = csv.reader(text.splitlines())
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append((reader.line_num, cells))
            if rows and len(cells) > len(rows[0][1]):
                head = len(rows[0][1])
                raise refusal(f"{origin}, line {reader.line_num}: {len(cells)} cells for {head} columns")
    except csv.Error as error:
        raise refusal(f"{origin}, line {reader.line_num}: not CSV ({error})") from error
    return rows


def number(cell: str) -> float | int | str:
    """The number that a cell spells, or the cell as it is."""
    try:
        return int(cell) if cell.isdecimal() else float(cell)
    except ValueError:
        return cell


class _Twice(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise _Twice(shown(name))
    return table


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**63 else value
