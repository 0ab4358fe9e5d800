"""What people read on standard output: sentences and tables, as wide as the terminal."""

import io
import os
from typing import IO, Literal, NoReturn

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.text import Text

from slicewise.text.tables import PROSE, Table
from slicewise.text.width import WIDE, every_column
from slicewise.text.wrapping import spans

_WIDE = 200  # of a file or a pipe, unless COLUMNS says otherwise
_NARROW = 40


class Prose:
    """Sentences: `Prose("step: ", ("31.2 ms", "bold"))`. Model and file names may hold any character: no markup."""

    def __init__(self, *parts: str | tuple[str, str], style: str = "", hanging: int = 0) -> None:
        self._text = Text.assemble(*parts, style=style, overflow="ignore")
        self._hanging = hanging  # how far lines after the first are indented

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, PROSE) - self._hanging
        for number, (start, stop) in enumerate(spans(self._text.plain, width)):
            line = self._text[start:stop]
            line.pad_left(self._hanging if number else 0)
            line.no_wrap = True
            yield line


class Page(Console):
    """Standard output, or a text without colours. A wide page has every column of its tables, whatever that takes."""

    def __init__(self, width: int | None = None, file: IO[str] | None = None) -> None:
        colours: Literal["auto"] | None = "auto" if file is None else None
        width = width or _width()
        self.wide = width is None
        width = max(width or _WIDE, _NARROW)
        super().__init__(width=width, file=file, color_system=colours, highlight=False, markup=False)
        self._before: ConsoleRenderable | None = None

    def show(self, *items: ConsoleRenderable) -> None:
        """Tables stand by themselves, between empty lines."""
        for item in items:
            if self._before is not None and Table in (type(item), type(self._before)):
                self.line()
            self.print(item, crop=False)
            self._before = item

    def say(self, *parts: str | tuple[str, str], style: str = "") -> None:
        self.show(Prose(*parts, style=style))

    def on_broken_pipe(self) -> NoReturn:
        """The command decides how it ends, not this library."""
        raise


def _width() -> int | None:
    """Of the terminal, or what COLUMNS says; none where all columns are wanted."""
    if WIDE.get():
        return None
    plain = Console()
    return plain.width if plain.is_terminal or os.environ.get("COLUMNS", "").isdigit() else None


def plain_text(*items: ConsoleRenderable, width: int | None = None) -> str:
    """Without a width, every column of every table."""
    text = io.StringIO()
    with every_column(width is None):
        Page(width, text).show(*items)
    return text.getvalue()
