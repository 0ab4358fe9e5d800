import gzip
import os
import threading
from pathlib import Path

import pytest

from slicewise.errors import RequestError
from slicewise.formats import files
from slicewise.formats.files import number, parse_csv, parse_json, parse_toml, read_text


@pytest.mark.parametrize("content", [b"hello", gzip.compress(b"hello", mtime=0), b"\xef\xbb\xbfhello"])
def test_text_is_read_plain_or_compressed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_text(path, RequestError, "text") == "hello"


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(b"hello", mtime=0),))
    writer.start()
    assert read_text(path, RequestError, "text") == "hello"
    writer.join()


def test_what_is_larger_than_it_may_be_is_refused_plain_or_compressed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"x" * 101, gzip.compress(b"x" * 101)):
        path.write_bytes(content)
        with pytest.raises(RequestError, match=r"larger than .* MiB, the most that is read of text"):
            read_text(path, RequestError, "text", largest_bytes=100)


def test_json_of_too_many_values_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_VALUES", 100)
    assert len(parse_json("[" + "{}," * 40 + "{}]", "x", RequestError)) == 41
    with pytest.raises(RequestError, match="x: more than 100 values, the most that are read"):
        parse_json("[" + "{}," * 60 + "{}]", "x", RequestError)


def test_whole_numbers_of_toml_may_be_spelled_with_an_exponent() -> None:
    assert parse_toml("a = 16e9\nb = 0.5", "x", RequestError) == {"a": 16 * 10**9, "b": 0.5}
    assert isinstance(parse_toml("a = 16e9", "x", RequestError)["a"], int)


def test_rows_of_csv_know_their_lines() -> None:
    assert parse_csv("a, b\n\n1,\n", "x", RequestError) == [(1, ["a", "b"]), (3, ["1", ""])]


@pytest.mark.parametrize(
    ("cell", "value"), [("16", 16), ("016", 16), (".5", 0.5), ("1e3", 1000.0), ("x", "x"), ("", "")]
)
def test_a_cell_is_a_number_where_it_spells_one(cell: str, value: object) -> None:
    assert number(cell) == value
    assert type(number(cell)) is type(value)
