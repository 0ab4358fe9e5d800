"""Layers that belong together in a picture: runs of one slicing, and modules."""

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from slicewise.graph.kind import Kind, Trait

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

UNSHOWN = frozenset(kind.value for kind in Kind if kind.has(Trait.WIRING))


def runs(plan: "Plan", shown: Collection[str] | None = None) -> list[list[str]]:
    """Consecutive layers of one slicing, without those that are no operator; of `shown` ones, or of all."""
    found: list[list[str]] = []
    for name, kind in plan.kinds.items():
        if kind in UNSHOWN or (shown is not None and name not in shown):
            continue
        if found and plan.slicings[found[-1][0]] == plan.slicings[name]:
            found[-1].append(name)
        else:
            found.append([name])
    return found


def modules(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Consecutive layers of one top module: `layer1.0.conv1` is in `layer1`."""
    found: list[tuple[str, list[str]]] = []
    for name in names:
        head = re.split(r"[.#]", name, maxsplit=1)[0]
        if found and found[-1][0] == head:
            found[-1][1].append(name)
        else:
            found.append((head, [name]))
    return found


def counted(names: list[str]) -> str:
    """`features.0 .. features.12 (13 layers)`."""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)} layers)"
