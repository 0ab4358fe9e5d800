"""At no width is a number cut, parted from its unit, or lost."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from slicewise.strategies.showing import hours
from slicewise.text.page import Prose, plain_text
from slicewise.text.tables import Table
from slicewise.units import amount, seconds

NUMBER = re.compile(r"\d[\d.,]*(?: h \d+ min| (?:[mun]?s|min|[kMGT]?B)\b|x)?")
POSITIVE = st.floats(1e-7, 1e5)
NUMBERS = st.one_of(
    POSITIVE.map(seconds),
    POSITIVE.map(lambda value: amount(value * 1e7, "B")),
    POSITIVE.map(lambda value: f"{value:,.1f}"),
    POSITIVE.map(lambda value: f"{value:.2f}x"),
    st.floats(3600, 1e6).map(hours),
    st.tuples(POSITIVE, POSITIVE).map(lambda ends: f"{seconds(ends[0])} - {seconds(ends[1])}"),
    st.just("-"),
)
WORD = st.text("abcdefgh.", min_size=1, max_size=30)
HEADER = st.text("abcdefgh", min_size=1, max_size=10)
WORDS = st.lists(st.one_of(WORD, POSITIVE.map(seconds)), max_size=8).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[str]]:
    """A table, and its header's words."""
    width = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.booleans(), min_size=width, max_size=width))
    headers = [f"{draw(HEADER)} {'word' if words else 'number'} of{chr(97 + n)}" for n, words in enumerate(kinds)]
    words = [header for header, is_words in zip(headers, kinds, strict=True) if is_words]
    table = Table(*headers, keys=draw(st.integers(1, min(2, width))), words=words)
    for _ in range(draw(st.integers(1, 5))):
        table.add_row(*(draw(WORDS if is_words else NUMBERS) for is_words in kinds))
    return table, headers


def _numbers(text: str) -> Counter[str]:
    return Counter(found for line in text.splitlines() for found in NUMBER.findall(line))


@given(tables(), st.integers(40, 200))
def test_no_number_of_the_narrow_table_is_cut(made: tuple[Table, list[str]], width: int) -> None:
    table, _ = made
    wide, shown = plain_text(table, width=5000), plain_text(table, width=width)
    narrow = _numbers(shown)
    assert all(count <= _numbers(wide)[number] for number, count in narrow.items())
    if "also with --wide" not in shown:
        assert narrow == _numbers(wide)


@given(tables(), st.integers(40, 200))
def test_lines_fit_and_headers_are_not_cut(made: tuple[Table, list[str]], width: int) -> None:
    table, headers = made
    wide, narrow = plain_text(table, width=5000), plain_text(table, width=width)
    assert max(map(len, narrow.splitlines())) <= width
    shown = {word for header in headers if header in wide for word in header.split()}
    assert shown <= set(narrow.replace(",", " ").split())  # above a column, or among those that --wide adds


@given(st.lists(st.one_of(WORD, NUMBERS), min_size=1, max_size=60).map(" ".join), st.integers(40, 200))
def test_sentences_keep_numbers_and_units_together(text: str, width: int) -> None:
    lines = plain_text(Prose(text), width=width)
    assert lines.split() == text.split()
    assert _numbers(lines) == _numbers(text)
