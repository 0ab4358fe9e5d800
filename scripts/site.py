"""What mkdocs asks of us while it builds the site: reference pages made from the code, and links that leave docs/.

slicewise.cli's parsers   -> reference/commands.md
slicewise.__all__, what parallelize and pipeline return, and the stacks' classes   -> reference/python.md
CHANGELOG.md              -> reference/changelog.md
"""

import argparse
import dataclasses
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import slicewise
from slicewise.cli.main import COMMANDS, parser

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(python|console) \w+$", re.MULTILINE)  # a second word tells the tests what to do
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#\s]+)(#[^)]*)?\)")
_WIDTH = "100"
# beside the names of slicewise itself: where they are, and how users come by them
_ELSEWHERE = {
    "SlicedModule": ("slicewise.runtime.sliced_module", "What `parallelize` returns."),
    "Pipeline": ("slicewise.runtime.pipeline", "What `pipeline` returns."),
    "SlicewiseStrategy": ("slicewise.lightning", "`from slicewise.lightning import SlicewiseStrategy`"),
    "Accelerator": ("slicewise.accelerate", "`from slicewise.accelerate import Accelerator`"),
}


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: pages that no file has."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """mkdocs: a page's text, before it is rendered."""
    return markdown if page.file.generated_by else adapted(markdown, config.repo_url)


def adapted(markdown: str, repository: str | None) -> str:
    """Links to files of the repository: to its address where mkdocs.yml has one, else in words."""

    def outside(link: re.Match[str]) -> str:
        if repository:
            return f"[{link[1]}]({repository.rstrip('/')}/blob/main/{link[2]}{link[3] or ''})"
        return f"{link[1]} (`{link[2]}` in the repository)"

    return _OUTSIDE.sub(outside, _FENCE.sub(r"```\1", markdown))


def pages() -> dict[str, str]:
    """Address -> text."""
    changes = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](../")  # which is docs/ from reference/
    return {
        "reference/commands.md": "".join(_commands()),
        "reference/python.md": "".join(_python()),
        "reference/changelog.md": changes,
    }


def _commands() -> Iterator[str]:
    yield "# Commands\n\nWhat `--help` prints.\n\n"
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    try:
        top = parser()
        choices = _below(top)
        for name in COMMANDS:
            yield f"## slicewise {name}\n\n```\n{choices[name].format_help()}```\n\n"
            for action, below in _below(choices[name]).items():
                yield f"### slicewise {name} {action}\n\n```\n{below.format_help()}```\n\n"
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns


def _below(parent: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parent._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _python() -> Iterator[str]:
    yield "# Python\n\n`import slicewise as sw`. [Releases](../releasing.md) promise these names.\n\n"
    for name in slicewise.__all__:
        if name != "__version__":
            yield from _entry(name, getattr(slicewise, name))
    for name, (module, how) in _ELSEWHERE.items():
        yield from _entry(name, getattr(import_module(module), name), f"{how}\n\n")


def _entry(name: str, thing: Any, how: str = "") -> Iterator[str]:
    yield f"## {name}\n\n{how}"
    if dataclasses.is_dataclass(thing):
        yield f"```python\nclass {name}:\n"
        for field in dataclasses.fields(thing):
            kind = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
            yield f"    {field.name}: {_short(kind)}\n"
        yield "```\n\n"
    elif inspect.isfunction(thing):
        yield f"```python\n{_signature(name, thing)}\n```\n\n"
    yield f"{_text(thing)}\n\n"
    if inspect.isclass(thing):
        for own, member in vars(thing).items():
            call = getattr(thing, own)
            if (
                not own.startswith("_")
                and (inspect.isfunction(call) or inspect.ismethod(call))
                and inspect.getdoc(member)
            ):
                yield f"### {name}.{own}\n\n```python\n{_signature(own, call)}\n```\n\n{_text(member)}\n\n"


def _signature(name: str, function: Any) -> str:
    """One parameter per line where it does not fit."""
    signature = inspect.signature(function)
    line = _short(f"{name}{signature}")
    if len(line) <= int(_WIDTH):
        return line
    listed = [_short(str(parameter)) for parameter in signature.parameters.values()]
    first = next(
        (at for at, each in enumerate(signature.parameters.values()) if each.kind is each.KEYWORD_ONLY), len(listed)
    )
    listed[first:first] = ["*"] if first < len(listed) else []
    inside = "".join(f"    {each},\n" for each in listed)
    returned = inspect.formatannotation(signature.return_annotation)
    return f"{name}(\n{inside}) -> {_short(returned)}"


def _short(annotation: str) -> str:
    """`slicewise.plans.plan.Plan` is `Plan`."""
    return re.sub(r"\b(?:[a-z_]+\.)+([A-Z]\w*)", r"\1", annotation)


def _text(thing: Any) -> str:
    """The docstring, its examples as code."""
    text = inspect.getdoc(thing) or ""
    return re.sub(r"((?:^>>> .*\n?(?:^(?!>>>)\S.*\n?)*)+)", r"```python\n\1```\n", text + "\n", flags=re.MULTILINE)
