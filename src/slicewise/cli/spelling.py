"""Options in messages: the library names them as Python does, between backquotes; a command as one types them."""

import argparse
import re
from collections.abc import Callable, Collection
from functools import partial

_COMMANDS = {"calibrate_from": "slicewise calibrate --from"}  # what Python has as functions
_OPTION = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")


def flag(name: str) -> str:
    """`flag('memory_limit') == '--memory-limit'`."""
    return f"--{name.replace('_', '-')}"


def as_typed(message: str, known: Collection[str]) -> str:
    """`batch=4` becomes --batch 4, `recompute=True` --recompute, `dtype="bf16"` --dtype bf16, a shape 3x224x224, and a
    step that was `measured=(64, TIME)` 64=TIME.
    """

    def typed(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name in _COMMANDS:
            return _COMMANDS[name]
        if name not in known:
            return found[0]
        if value in (None, "True"):
            return flag(name)
        between = "=" if name == "measured" else "x"
        given = value.strip("()").replace(", ", between) if value.startswith("(") else value.strip('"')
        return f"{flag(name)} {given}"

    return _OPTION.sub(typed, message)


def speller(options: argparse.Namespace) -> Callable[[str], str]:
    """Sentences for whoever typed `options`."""
    return partial(as_typed, known=vars(options).keys())
