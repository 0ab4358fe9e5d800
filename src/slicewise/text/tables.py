"""Tables for people, at any width from 40 characters on.

Columns that do not fit beside each other go below, whole, under the same first columns:

    strategy       step  samples/s
    ──────────────────────────────
    layer-wise  31.2 ms     16,433

    strategy    memory  speed-up
    ────────────────────────────
    layer-wise  200 MB     1.78x
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from slicewise.text.wrapping import atoms, cell_lines, pieces

# columns of words; the others are numbers
_WORDS = {"layers", "kind", "slicing", "slicings", "strategy", "split", "why", "next best", "flips at", "plan", "limit"}
_WORDS |= {"price", "per step", "cluster", "device", "tier", "operation", "of one device", "value", "parameter"}
_GAP = 2
_COMFORTABLE = 20  # words are wrapped to this width before a column goes below
_NARROWEST = 6


@dataclass(frozen=True, kw_only=True)
class _Column:
    header: str
    cells: Sequence[str]
    words: bool

    @cached_property
    def widths(self) -> tuple[int, int, int, int]:
        """What it likes, what will do, and two last resorts: lines broken between pieces, and inside long words."""
        every = (self.header, *self.cells)
        natural = _widest(line for text in every for line in text.split("\n"))
        piece = _widest(piece for text in every for piece in pieces(text))
        header = _widest(pieces(self.header))
        if self.words:
            atom = _widest(atom for text in every for atom in atoms(text))
            narrowest = max(header, atom, min(piece, _NARROWEST))
            return natural, max(piece, min(natural, _COMFORTABLE)), piece, narrowest
        whole = _widest(line for cell in self.cells for line in cell.split("\n"))
        return natural, max(whole, header), piece, piece

    def lines(self, text: str, width: int) -> list[str]:
        filled = str.ljust if self.words else str.rjust
        return [filled(line, width - cell_len(line) + len(line)) for line in cell_lines(text, width)]


class Table:
    """Words to the left, numbers to the right. The first `keys` columns are repeated where others go below."""

    def __init__(self, *headers: str, keys: int = 1, words: Collection[str] = ()) -> None:
        self._headers, self._keys, self._words = headers, keys, _WORDS.union(words)
        self._rows: list[Sequence[str]] = []
        self._styles: list[str] = []
        self._sections: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def add_row(self, *cells: str, style: str = "") -> None:
        assert len(cells) == len(self._headers)
        self._rows.append(cells)
        self._styles.append(style)

    def add_section(self) -> None:
        """An empty line between the rows before and after."""
        if self._rows:
            self._sections.add(len(self))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rule = "-" if options.ascii_only else "─"
        for position, block in enumerate(_blocks(*self._columns(), options.max_width)):
            if position:
                yield Text("")
            widths = _widths(block, options.max_width)
            yield from _drawn(block, widths, [column.header for column in block], "bold", bottom=True)
            yield Text(rule * min(_total(widths), options.max_width))
            for number, style in enumerate(self._styles):
                if number in self._sections:
                    yield Text("")
                yield from _drawn(block, widths, [column.cells[number] for column in block], style)

    def _columns(self) -> tuple[list[_Column], list[_Column]]:
        """Those that are repeated, and the others that have something to say."""
        columns = [
            _Column(header=header, cells=[row[number] for row in self._rows], words=header in self._words)
            for number, header in enumerate(self._headers)
        ]
        return columns[: self._keys], [column for column in columns[self._keys :] if any(column.cells)]


def _blocks(keys: list[_Column], columns: list[_Column], width: int) -> Iterator[list[_Column]]:
    """As many columns beside each other as will do."""
    block = list(keys)
    for column in columns:
        if len(block) > len(keys) and _total([other.widths[1] for other in [*block, column]]) > width:
            yield block
            block = list(keys)
        block.append(column)
    yield block


def _widths(block: list[_Column], width: int) -> list[int]:
    """The most comfortable that fit; what is left goes where most is missing."""
    for level in (1, 2, 3):
        widths = [column.widths[level] for column in block]
        if _total(widths) <= width:
            break
    missing = [column.widths[0] - own for column, own in zip(block, widths, strict=True)]
    while _total(widths) < width and max(missing) > 0:
        widest = missing.index(max(missing))
        widths[widest] += 1
        missing[widest] -= 1
    return widths


def _drawn(
    block: list[_Column], widths: list[int], cells: list[str], style: str, *, bottom: bool = False
) -> Iterator[Text]:
    """The lines of one row."""
    drawn = [column.lines(cell, width) for column, cell, width in zip(block, cells, widths, strict=True)]
    height = max(map(len, drawn))
    filled = []
    for lines, width in zip(drawn, widths, strict=True):
        empty = [" " * width] * (height - len(lines))
        filled.append([*empty, *lines] if bottom else [*lines, *empty])
    for line in zip(*filled, strict=True):
        yield Text((" " * _GAP).join(line).rstrip(), style, no_wrap=True, overflow="ignore")


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)
