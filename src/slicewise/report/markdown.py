"""Sections as Markdown: sentences and tables; of figures what they show in words."""

import re
from collections.abc import Sequence
from html import unescape

from slicewise.report.sections import Facts, Figure, Grid, Part, Section


def markdown(title: str, lead: str, sections: Sequence[Section]) -> str:
    blocks = [f"# {_plain(title)}", _plain(lead)]
    for section in sections:
        blocks.append(f"## {_plain(section.title)}")
        blocks += [block for part in section.parts if (block := _part(part))]
    return "\n\n".join(blocks) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Figure):
        label = re.search(r'aria-label="([^"]*)"', part.svg)
        return _plain(f"Figure: {unescape(label[1])}.") if label else ""
    if isinstance(part, Facts):
        return _table(("what", "value"), part.items) if part.items else ""
    if isinstance(part, Grid):
        note = f"\n\n{_plain(part.note)}" if part.note else ""
        return f"### {_plain(part.title)}\n\n{_table(part.head, part.rows)}{note}"
    title = f"### {_plain(part.title)}\n\n" if part.title else ""
    return title + ("\n" if part.listed else "\n\n").join(
        f"- {_plain(line)}" if part.listed else _plain(line) for line in part.lines
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Signs that would be markup stand for themselves."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split())) if text != "---" else text
