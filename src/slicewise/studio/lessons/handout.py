"""Learn as one file: words, pictures, scripts and tables, to be opened from disk and handed to a class."""

import base64
import hashlib
import json
import re
from importlib import resources
from string import Template
from typing import Any

from slicewise.studio.lessons.tables import PARTS, Progress

STYLES = ("base.css", "learn.css")
# each imports only those before it
SCRIPTS = ("dom.js", "units.js", "scenes.js", "lessons.js", "learn.js", "handout.js")


def learn_page(progress: Progress = lambda _: None) -> str:
    """The whole page; nothing in it asks for anything outside it."""
    return page_of({name: make(progress) for name, make in PARTS.items()})


def page_of(tables: dict[str, Any]) -> str:
    """Its policy runs the one script that is in it."""
    script = "\n".join(joined(_read(name)) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_read("handout.html")).substitute(
        styles="\n".join(map(_read, STYLES)),
        tables=json.dumps(tables, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        script=script,
        hash=f"sha256-{digest}",
    )


def joined(script: str) -> str:
    """Without imports and exports: in one file every name is at hand."""
    without = re.sub(r'^import .*? from "\./[\w.]+";\n', "", script, flags=re.MULTILINE)
    return re.sub(r"^export (?=const|let|class|function|async)", "", without, flags=re.MULTILINE)


def _read(name: str) -> str:
    return resources.files("slicewise.studio").joinpath("page", name).read_text(encoding="utf-8")
