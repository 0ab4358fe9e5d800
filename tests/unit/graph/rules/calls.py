"""Operator calls from shapes alone; the walk over real networks is in test_capture.py."""

from typing import Any

from slicewise.graph.operators import Call, Found, Meaning, Operand, Source
from slicewise.graph.rules import RULES

Shape = tuple[int, ...]


def weight(*shape: int) -> Operand:
    return Operand(shape, "." * len(shape), Source.WEIGHT)


def tensor(letters: str, *shape: int) -> Operand:
    return Operand(shape, letters)


def meaning(operator: str, shape: Shape, operands: dict[str, Operand], **arguments: Any) -> Found:
    """What the rule for `operator` says of a call that returns `shape`."""
    return RULES[operator](Call(operator=operator, arguments=arguments, operands=operands, shape=shape))


def known(found: Found) -> Meaning:
    assert isinstance(found, Meaning)
    return found


def spelled(found: Found) -> str:
    """The layer as an einsum."""
    layer = known(found)
    return f"{', '.join(layer.operands.values())} -> {layer.dims}"
