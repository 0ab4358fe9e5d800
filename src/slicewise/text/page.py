"""What people read on standard output: sentences and tables, as wide as the terminal."""

import io
import os
from typing import IO, Literal, NoReturn

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.text import Text

from slicewise.text.tables import Table
from slicewise.text.wrapping import spans

_WIDE = 200  # of a file or a pipe, unless COLUMNS says otherwise
_NARROW = 40
_PROSE = 120  # longer lines are hard to read


class Prose:
    """Sentences: `Prose("step: ", ("31.2 ms", "bold"))`. Model and file names may hold any character: no markup."""

    def __init__(self, *parts: str | tuple[str, str], style: str = "") -> None:
        self._text = Text.assemble(*parts, style=style, overflow="ignore")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for start, stop in spans(self._text.plain, min(options.max_width, _PROSE)):
            line = self._text[start:stop]
            line.no_wrap = True
            yield line


class Page(Console):
    """Standard output, or a text without colours."""

    def __init__(self, width: int | None = None, file: IO[str] | None = None) -> None:
        colours: Literal["auto"] | None = "auto" if file is None else None
        width = max(width or _width(), _NARROW)
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


def _width() -> int:
    plain = Console()
    return plain.width if plain.is_terminal or os.environ.get("COLUMNS", "").isdigit() else _WIDE


def plain_text(*items: ConsoleRenderable, width: int = _WIDE) -> str:
    text = io.StringIO()
    Page(width, text).show(*items)
    return text.getvalue()
