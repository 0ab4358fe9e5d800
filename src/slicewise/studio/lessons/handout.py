"""Learn as one file: words, pictures, scripts and tables, to be opened from disk and handed to a class."""

import json
import re
from importlib import resources
from typing import Any

from slicewise.studio.lessons.tables import PARTS, Progress

STYLES = ("base.css", "learn.css")
SCRIPTS = ("dom.js", "units.js", "scenes.js", "lessons.js", "learn.js")  # each imports only those before it
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>How training is parallelised: eight lessons</title>
<style>
{styles}
main {{ max-width: 1480px; margin: 0 auto; padding: 16px 20px 60px; }}
.lesson-list {{ top: 16px; }}
</style>
</head>
<body>
<main id="main"></main>
<noscript><p class="card">The lessons are drawn by a script in this file. Please allow it.</p></noscript>
<script type="application/json" id="tables">{tables}</script>
<script type="module">
{scripts}
const tables = JSON.parse(document.getElementById("tables").textContent);
const show = () => showLessons(document.getElementById("main"), async (part) => tables[part]);
addEventListener("hashchange", show);
show();
</script>
</body>
</html>
"""  # noqa: E501


def learn_page(progress: Progress = lambda _: None) -> str:
    """The whole page; nothing in it asks for anything outside it."""
    tables = {name: make(progress) for name, make in PARTS.items()}
    return page_of(tables)


def page_of(tables: dict[str, Any]) -> str:
    held = json.dumps(tables, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    styles = "\n".join(map(_read, STYLES))
    scripts = "\n".join(joined(_read(name)) for name in SCRIPTS)
    return _PAGE.format(styles=styles, scripts=scripts.replace("</", "<\\/"), tables=held)


def joined(script: str) -> str:
    """Without imports and exports: in one file every name is at hand."""
    without = re.sub(r'^import .*? from "\./[\w.]+";\n', "", script, flags=re.MULTILINE)
    return re.sub(r"^export (?=const|let|class|function|async)", "", without, flags=re.MULTILINE)


def _read(name: str) -> str:
    return resources.files("slicewise.studio").joinpath("page", name).read_text(encoding="utf-8")
