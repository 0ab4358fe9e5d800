"""Sections as one HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere.

All words are escaped here; figures come as SVG that escapes its own. The page's policy runs no script but its own.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from slicewise.figures.svg import CHOSEN
from slicewise.report.sections import Facts, Figure, Grid, Part, Section
from slicewise.version import VERSION

_CODE = ("formula", "with its numbers")  # columns of signs
SCRIPTS = ("theme.js", "zoom.js", "start.js")
_LONG = ("not possible because", "gives")
_TALL = 2.2
_SMALLEST, _LARGEST = 0.78, 1.1  # of a figure's own width: what would be smaller is scrolled


def html_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    script, style = joined(*map(asset, SCRIPTS)), asset("style.css") + CHOSEN
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    return Template(asset("page.html")).substitute(
        title=escape(title),
        lead=escape(lead),
        version=VERSION,
        style=style,
        script=script,
        script_hash=f"sha256-{digest}",
        contents="\n".join(_contents(sections)),
        sections="\n".join(
            _section(section, number, alone=len(sections) == 1) for number, section in enumerate(sections, 1)
        ),
    )


def asset(name: str) -> str:
    """A file of the page, as text."""
    return (files("slicewise.report") / "page" / name).read_text(encoding="utf-8")


def joined(*scripts: str) -> str:
    """Scripts as one, without imports and exports: in one file every name is at hand."""
    text = "\n".join(scripts)
    without = re.sub(r'^import .*? from "\./[\w.]+";\n', "", text, flags=re.MULTILINE)
    return re.sub(r"^export (?=const|let|class|function|async)", "", without, flags=re.MULTILINE)


def _contents(sections: Sequence[Section]) -> list[str]:
    lines = []
    for number, section in enumerate(sections, 1):
        lines.append(f'<a href="#s{number}">{escape(section.title)}</a>')
        lines += [
            f'<a class="part" href="#s{number}-{figure.name}">{escape(NAMES[figure.name])}</a>'
            for figure in section.figures
            if figure.name in NAMES
        ]
    return lines


NAMES = {
    "plan": "At one look",
    "network": "The network, and why",
    "layers": "What each layer costs",
    "cut-1": "How tensors are cut",
    "memory": "Memory",
    "timeline": "One step over time",
    "scaling": "Over device counts",
    "terms": "Where steps go",
    "frontier": "Time against memory",
    "agreement": "Predicted against measured",
    "scatter": "All runs",
}


def _section(section: Section, number: int, *, alone: bool) -> str:
    """`alone`: the page's own heading says what it is, and of which file."""
    source = f'<p class="source">from {escape(section.source)}</p>' if section.source else ""
    head = "" if alone else f"<h2>{escape(section.title)}</h2>{source}\n"
    parts = "\n".join(_part(part, number) for part in section.parts)
    return f'<section id="s{number}">\n{head}{parts}\n</section>'


def _part(part: Part, number: int) -> str:
    if isinstance(part, Figure):
        return _figure(part, number)
    if isinstance(part, Grid):
        return _grid(part)
    if isinstance(part, Facts):
        items = "".join(f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for what, value in part.items)
        return f'<dl class="facts">{items}</dl>' if items else ""
    title = f"<h3>{escape(part.title)}</h3>" if part.title else ""
    if part.listed:
        return f"{title}<ul>{''.join(f'<li>{escape(line)}</li>' for line in part.lines)}</ul>"
    return title + "".join(f"<p>{escape(line)}</p>" for line in part.lines)


def _figure(figure: Figure, number: int) -> str:
    found = re.search(r'width="([0-9.]+)" height="([0-9.]+)"', figure.svg)
    width, height = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    tall = ' class="tall"' if height > _TALL * width else ""  # on paper it goes on on the next page
    size = f"min-width:{_SMALLEST * width:.0f}px;max-width:{_LARGEST * width:.0f}px"
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    label = escape(NAMES.get(figure.name, "figure"))
    return (
        f'<figure id="s{number}-{figure.name}"{tall}>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
        f'<div style="{size}">{figure.svg}</div></div>{caption}</figure>'
    )


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.head)
    styles = [' class="code"' if name in _CODE else ' class="long"' if name in _LONG else "" for name in grid.head]
    rows = "\n".join(
        "<tr>" + "".join(f"<td{style}>{escape(cell)}</td>" for style, cell in zip(styles, row, strict=True)) + "</tr>"
        for row in grid.rows
    )
    note = f'<p class="note">{escape(grid.note)}</p>' if grid.note else ""
    label = escape(grid.title)
    table = (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>{note}"
    )
    if grid.folded:
        return f"<details><summary>{escape(grid.title)}</summary>{table}</details>"
    return f"<h3>{escape(grid.title)}</h3>{table}"
