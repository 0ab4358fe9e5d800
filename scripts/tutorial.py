"""Measures the tutorial again: `python scripts/tutorial.py` runs its commands in order and renews what they print.

In docs/tutorial.md, a `console` block is a command and what it prints, `...` for what is left out: a test compares.
A `console measured` block has figures of the machine that it was run on, whole: those are written anew.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slicewise.saving import write_file

PAGE = Path(__file__).parents[1] / "docs/tutorial.md"
_BLOCK = re.compile(r"^```console( measured)?\n\$ (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
WIDTH = "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    command: str
    printed: str
    measured: bool
    place: tuple[int, int]  # of what is printed, in the page


def blocks(text: str) -> Iterator[Shown]:
    for found in _BLOCK.finditer(text):
        yield Shown(command=found[2], printed=found[3], measured=bool(found[1]), place=found.span(3))


def ran(command: str, folder: Path) -> str:
    """What a terminal of the tutorial's width shows, without progress; a failure ends the script."""
    environment = {**os.environ, "COLUMNS": WIDTH, "SLICEWISE_CACHE": str(folder)}
    name, *arguments = shlex.split(command)
    assert name == "slicewise", command
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    text = PAGE.read_text()
    renewed: list[tuple[tuple[int, int], str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for shown in blocks(text):
            print(f"$ {shown.command}", file=sys.stderr, flush=True)
            printed = ran(shown.command, Path(folder))
            if shown.measured:
                renewed.append((shown.place, printed))
    for (start, stop), printed in reversed(renewed):
        text = text[:start] + printed + text[stop:]
    write_file(PAGE, text)


if __name__ == "__main__":
    main()
