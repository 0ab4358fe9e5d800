"""Lines that break between words: never inside a number, and never between a number and its unit."""

import re

from rich.cells import cell_len

_UNIT = r"(?:[mun]?s|min|h|%|[kMGT]?(?:B|FLOP)(?:/s)?)(?!\w)"
_NUMBER = rf"[+-]?\d[\d.,]*(?: h \d+ min| {_UNIT})?"
_PIECE = re.compile(rf"(?:{_NUMBER}|\S|\u00a0)+")  # a no-break space holds what it joins
_ATOM = re.compile(rf"{_NUMBER}|.")


def pieces(text: str) -> list[str]:
    """`pieces('saves 1.78 ms of sync') == ['saves', '1.78 ms', 'of', 'sync']`."""
    return _PIECE.findall(text)


def atoms(text: str) -> list[str]:
    """What even the narrowest cell leaves whole: numbers with their units, and letters."""
    return _ATOM.findall(text)


def spans(text: str, width: int) -> list[tuple[int, int]]:
    """From where to where each line goes. A piece wider than a line has one of its own, and is left whole."""
    found: list[tuple[int, int]] = []
    begin = 0
    for line in text.split("\n"):
        start = stop = begin
        for piece in _PIECE.finditer(text, begin, begin + len(line)):
            if stop > start and cell_len(text[start : piece.end()]) > width:
                found.append((start, stop))
                start = piece.start()
            stop = piece.end()
        found.append((start, stop))
        begin += len(line) + 1
    return found


def cell_lines(text: str, width: int) -> list[str]:
    """The lines of a cell, none wider than it: a word that is goes on below, but its numbers stay whole."""
    lines: list[str] = []
    for start, stop in spans(text, width):
        whole = text[start:stop]
        line = ""
        for item in atoms(whole) if cell_len(whole) > width else [whole]:
            if line and cell_len(line + item) > width:
                lines.append(line)
                line = ""
            line += item
        lines.append(line)
    return lines
