"""Answers that were given before, within a bound."""

from slicewise.studio.remembering import Remembered


def test_what_nobody_asks_for_makes_room() -> None:
    kept = Remembered(100)
    for number in range(6):
        kept.add(number, bytes(25))
        assert kept.get(0) is not None
    assert [number for number in range(6) if kept.get(number) is not None] == [0, 3, 4, 5]


def test_an_answer_that_would_fill_it_is_not_kept() -> None:
    kept = Remembered(100)
    kept.add("large", bytes(80))
    assert kept.get("large") is None
