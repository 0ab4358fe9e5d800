"""Where a line may end."""

from slicewise.text.wrapping import cell_lines, pieces, spans


def _lines(text: str, width: int) -> list[str]:
    return [text[start:stop] for start, stop in spans(text, width)]


def test_a_number_and_its_unit_are_one_piece() -> None:
    assert pieces("saves 1.78 ms of sync") == ["saves", "1.78 ms", "of", "sync"]
    assert pieces("7 h 29 min - 95 %, (12.3 GB/s)") == ["7 h 29 min", "-", "95 %,", "(12.3 GB/s)"]
    assert pieces("512 · [0.08\u00a0ns/B] / 16") == ["512", "·", "[0.08\u00a0ns/B]", "/", "16"]
    assert pieces("16 shards of 4 sms") == ["16", "shards", "of", "4", "sms"]


def test_sentences_break_between_pieces_and_keep_their_own_lines() -> None:
    assert _lines("it takes 2.06 ms more", 12) == ["it takes", "2.06 ms more"]
    assert _lines("a b\n\n  c", 80) == ["a b", "", "  c"]
    assert _lines("", 80) == [""]


def test_a_path_is_never_cut_in_a_sentence() -> None:
    assert _lines("wrote /a/very/long/path now", 8) == ["wrote", "/a/very/long/path", "now"]


def test_a_cell_cuts_words_that_are_too_long_but_not_their_numbers() -> None:
    assert cell_lines("classifier.12345.weight", 8) == ["classifi", "er.", "12345.we", "ight"]
    assert cell_lines("層層層", 4) == ["層層", "層"]
