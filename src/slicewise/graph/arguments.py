"""Whether the arguments of a layer's operator say the same as its other fields."""

from collections.abc import Iterator
from typing import Any

from slicewise.graph.dims import SPACE, WHOLE
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer

DEEPEST = 16  # tables and lists, one in another
_MODES = ("training", "train", "use_input_stats")
_WINDOW = {"kernel_size": "kernel", "stride": "stride", "padding": "padding", "dilation": "dilation"}


def argument_complaints(layer: Layer) -> Iterator[str]:
    arguments = layer.options.get("arguments", {})
    for name, value in arguments.items():
        if name in _MODES and not isinstance(value, bool):
            yield f"options.arguments.{name} is {value!r:.40}; must be true or false"
        yield from (f"options.arguments.{name}: {said}" for said in _reference_complaints(layer, value, DEEPEST))
    if layer.kind is Kind.ROLL:
        yield from _roll_complaints(layer, arguments)
    if layer.kind in (Kind.CONV, Kind.POOL):
        yield from _window_complaints(layer, arguments)


def _reference_complaints(layer: Layer, value: Any, left: int) -> Iterator[str]:
    """`{"input": 0}` is the layer's first input, `{"weight": "fc.weight"}` one of its weights."""
    if left == 0:
        yield f"tables and lists nested more than {DEEPEST} deep"
    if type(value) is dict:
        number = value.get("input", 0)
        if "input" in value and (type(number) is not int or not 0 <= number < len(layer.inputs)):
            yield f"input is {number!r:.40}, but the layer has {len(layer.inputs)}"
        if "weight" in value and value["weight"] not in [weight.name for weight in layer.weights]:
            yield f"weight is {value['weight']!r:.40}, which is none of the layer's weights"
    items = value.values() if type(value) is dict else value if type(value) is list else ()
    for item in items:
        if type(item) in (dict, list):
            yield from _reference_complaints(layer, item, left - 1)


def _roll_complaints(layer: Layer, arguments: dict[str, Any]) -> Iterator[str]:
    dims, shifts = arguments.get("dims"), arguments.get("shifts")
    numbers = [*dims, *shifts] if isinstance(dims, list) and isinstance(shifts, list) else [None]
    if not all(type(number) is int for number in numbers) or len(numbers) != 2 * len(set(dims or ())):
        yield "options.arguments of a roll: dims and shifts must be lists of as many whole numbers"
        return
    if not all(0 <= dim < len(layer.shape) for dim in dims or ()):
        yield f"options.arguments.dims is {dims!r:.60}, but the output has {len(layer.shape)} dims"
        return
    moved = dict(zip(dims or (), shifts or (), strict=True))
    for dim, window in layer.windows.items():
        if moved.get(layer.dims.index(dim)) != window.padding:
            yield f"options.arguments.shifts is {shifts!r:.60}, but windows.{dim} moves by {window.padding}"
    if unknown := [dim for dim in moved if layer.dims[dim] != WHOLE and layer.dims[dim] not in layer.windows]:
        yield f"options.arguments.dims names {unknown[0]}, but there is no window for {layer.dims[unknown[0]]}"


def _window_complaints(layer: Layer, arguments: dict[str, Any]) -> Iterator[str]:
    if arguments.get("groups", layer.groups) != layer.groups:
        yield f"options.arguments.groups is {arguments['groups']!r:.40}, but groups is {layer.groups}"
    space = [dim for dim in SPACE if dim in layer.windows]
    for name, field in _WINDOW.items():
        given = arguments.get(name)
        wanted = [getattr(layer.windows[dim], field) for dim in space]
        spread = given * len(wanted) if isinstance(given, list) and len(given) == 1 else given
        # a pool's stride may be left out, and padding may be a word
        if isinstance(given, list) and given and spread != wanted and len(space) == len(layer.shape) - 2:
            yield f"options.arguments.{name} is {given!r:.60}, but the windows have {wanted}"
