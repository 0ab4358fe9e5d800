"""What a report is made of, before it becomes a page or a text: sections of figures, tables and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str  # what `--figure` asks for
    svg: str
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table. `folded`: a page shows it when it is opened."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """Paragraphs, or points of a list."""

    lines: Sequence[str]
    listed: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The numbers to see first: what, and how much."""

    items: Sequence[tuple[str, str]]


Part = Figure | Grid | Sentences | Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    parts: Sequence[Part] = field(default_factory=tuple)
    source: str = ""  # the file it comes from

    @property
    def figures(self) -> list[Figure]:
        return [part for part in self.parts if isinstance(part, Figure)]
