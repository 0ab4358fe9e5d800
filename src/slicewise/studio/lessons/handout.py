"""Learn as one file: words, pictures, scripts and tables, to be opened from disk and handed to a class."""

import base64
import hashlib
import json
from string import Template
from typing import Any

from slicewise.report.html import joined
from slicewise.studio.lessons.tables import PARTS, Progress
from slicewise.studio.page_files import page_file

STYLES = ("base.css", "learn.css")
# each imports only those before it
SCRIPTS = ("theme.js", "dom.js", "units.js", "scenes.js", "lessons.js", "learn.js", "handout.js")


def learn_page(progress: Progress = lambda _: None) -> str:
    """The whole page; nothing in it asks for anything outside it."""
    return page_of({name: make(progress) for name, make in PARTS.items()})


def page_of(tables: dict[str, Any]) -> str:
    """Its policy runs the one script that is in it."""
    script = joined(*map(page_file, SCRIPTS))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(page_file("handout.html")).substitute(
        styles="\n".join(map(page_file, STYLES)),
        tables=json.dumps(tables, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        script=script,
        hash=f"sha256-{digest}",
    )
