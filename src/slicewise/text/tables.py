"""Tables for people, at any width from 40 characters on.

The columns that matter come first. Those that do not fit are left out and named below:

    strategy       step  speed-up
    ─────────────────────────────
    layer-wise  31.2 ms
    data        55.5 ms     1.78x
    also with --wide: memory, bytes
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from slicewise.text.wrapping import atoms, cell_lines, pieces, spans

# columns of words; the others are numbers
_WORDS = {"layers", "kind", "slicing", "slicings", "strategy", "split", "why", "next best", "flips at", "plan", "limit"}
_WORDS |= {"price", "per step", "cluster", "device", "tier", "operation", "of one device", "value", "parameter"}
_GAP = 2
_NOTHING = frozenset({"", "0", "-"})  # a column of these alone is left out
_COMFORTABLE = 20  # words are wrapped to this width before a column is left out
_NARROWEST = 6
PROSE = 120  # longer lines are hard to read


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
    """Words to the left, numbers to the right. The first `keys` columns and the one after them are always shown.

    Of the rest, those named `first` get room before all others, in the order given there. `notes` say what a column
    means; they stand below the table if the column is shown.
    """

    def __init__(
        self,
        *headers: str,
        keys: int = 1,
        words: Collection[str] = (),
        first: Sequence[str] = (),
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self._headers, self._keys, self._words, self._first = headers, keys, _WORDS.union(words), first
        self._notes = notes or {}
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
        columns, width = self._columns(), options.max_width
        if getattr(console, "wide", False):
            block, width = columns, max(width, _comfortable(columns))
        else:
            block = self._fitting(columns, width)
        widths = _widths(block, width)
        yield from _drawn(block, widths, [column.header for column in block], "bold", bottom=True)
        yield Text(rule * min(_total(widths), width))
        for number, style in enumerate(self._styles):
            if number in self._sections:
                yield Text("")
            yield from _drawn(block, widths, [column.cells[number] for column in block], style)
        for told in self._below(columns, block):
            lines = spans(told, min(width, PROSE))
            yield from (Text(told[start:stop], "dim", no_wrap=True, overflow="ignore") for start, stop in lines)

    def _below(self, columns: list[_Column], block: list[_Column]) -> Iterator[str]:
        """Which columns are left out, and what those above mean."""
        shown = [column.header for column in block]
        left_out = [column.header for column in columns if column.header not in shown]
        if left_out:
            yield f"also with --wide: {', '.join(left_out)}"
        notes = [f"{header}: {self._notes[header]}" for header in shown if header in self._notes]
        if notes:
            yield "; ".join(notes)

    def _columns(self) -> list[_Column]:
        """Those that have something to say."""
        columns = [
            _Column(header=header, cells=[row[number] for row in self._rows], words=header in self._words)
            for number, header in enumerate(self._headers)
        ]
        said = [column for column in columns[self._keys :] if not _NOTHING.issuperset(column.cells)]
        return columns[: self._keys] + said

    def _fitting(self, columns: list[_Column], width: int) -> list[_Column]:
        """Those that there is room for, up to the first that has none, in the order of the table."""
        shown, rest = columns[: self._keys + 1], columns[self._keys + 1 :]
        ranks = {header: rank for rank, header in enumerate(self._first)}
        for column in sorted(rest, key=lambda column: ranks.get(column.header, len(ranks))):
            if _comfortable([*shown, column]) > width:
                break
            shown.append(column)
        return [column for column in columns if column in shown]


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


def _comfortable(columns: Sequence[_Column]) -> int:
    return _total([column.widths[1] for column in columns])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)
