"""Files of the page: the studio's own, those that it shares with reports, and the figures' colours."""

from functools import cache
from importlib import resources

from slicewise.figures.svg import CHOSEN
from slicewise.report.html import asset

SHARED = ("theme.js", "zoom.js")


@cache
def page_files() -> dict[str, str]:
    """By name, as text."""
    own = resources.files("slicewise.studio").joinpath("page")
    files = {item.name: item.read_text(encoding="utf-8") for item in own.iterdir() if item.is_file()}
    return files | {name: asset(name) for name in SHARED} | {"figures.css": CHOSEN}


def page_file(name: str) -> str:
    return page_files()[name]
