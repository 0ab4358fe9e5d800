"""Options in messages: the library names them as Python does, between backquotes; a command as one types them."""

import re
from collections.abc import Collection

_OPTION = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")


def flag(name: str) -> str:
    """`flag('memory_limit') == '--memory-limit'`."""
    return f"--{name.replace('_', '-')}"


def as_typed(message: str, known: Collection[str]) -> str:
    """`batch=4` becomes --batch 4, `recompute=True` --recompute, `dtype="bf16"` --dtype bf16, a shape 3x224x224."""

    def typed(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name not in known:
            return found[0]
        if value in (None, "True"):
            return flag(name)
        shape = value.strip("()").replace(", ", "x") if value.startswith("(") else value.strip('"')
        return f"{flag(name)} {shape}"

    return _OPTION.sub(typed, message)
