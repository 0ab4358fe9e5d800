"""A slicing in words: `N4@inter F4@intra`."""

from collections.abc import Mapping
from math import prod

from slicewise.graph.dims import SPACE, Dim
from slicewise.partition.layout import Slicing


def degrees(slicing: Slicing, sizes: tuple[int, ...]) -> dict[str, int]:
    """`{"N": 4, "F": 4, "C": 1, ...}`: into how many parts each dim goes; heads, queries and columns where they do."""
    result = {dim.value: 1 for dim in (Dim.N, Dim.F, Dim.C, *SPACE)}
    for dim, size in zip(slicing, sizes, strict=True):
        if dim is not None:
            result[dim.value] = result.get(dim.value, 1) * size
    return result


def spelled(slicing: Slicing, axes: Mapping[str, int]) -> str:
    """`N16`, `N4@inter F4@intra`, or `whole` where nothing is sliced."""
    parts: dict[tuple[str, str], int] = {}
    for dim, (name, size) in zip(slicing, axes.items(), strict=True):
        if dim is not None:
            place = (dim.value, name.rstrip("0123456789"))
            parts[place] = parts.get(place, 1) * size
    if len({dim for dim, _ in parts}) == 1 and None not in slicing:
        return f"{next(iter(parts))[0]}{prod(parts.values())}"
    if len({name.rstrip("0123456789") for name in axes}) == 1:
        return " ".join(f"{dim}{degree}" for (dim, _), degree in parts.items()) or "whole"
    return " ".join(f"{dim}{degree}@{tier}" for (dim, tier), degree in parts.items()) or "whole"


def short_spelled(slicing: Slicing, sizes: tuple[int, ...]) -> str:
    """`N4 F4`, whatever links the parts are apart on."""
    return " ".join(f"{dim}{count}" for dim, count in degrees(slicing, sizes).items() if count > 1) or "whole"
