"""Whether the extents of a layer fit together: by its windows, its letters, its groups and its weights."""

from collections.abc import Iterator
from math import prod

from slicewise.graph.dims import BATCH, WHOLE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.operands import operand_complaints
from slicewise.graph.window import Window

_EMBEDDING = "aten.embedding.default"


def geometry_complaints(layer: Layer) -> Iterator[str]:
    """Each may rely on those before it."""
    yield from operand_complaints(layer)
    yield from _window_complaints(layer)
    yield from _extent_complaints(layer)
    yield from _held_complaints(layer)


def _window_complaints(layer: Layer) -> Iterator[str]:
    if layer.windows and not layer.kind.has(Trait.WINDOWED):
        yield f"windows must be empty for a layer of kind {layer.kind}"
    if len({window.transposed for window in layer.windows.values()}) > 1:
        yield "windows: transposed must be the same for all dims"
    for dim, window in layer.windows.items():
        if dim not in layer.dims or dim not in layer.input_dims[0]:
            yield f"windows: {dim} is no dim of both {layer.input_dims[0]!r} and {layer.dims!r}"
        before = layer.input_shapes[0][layer.input_dims[0].index(dim)]
        after = layer.shape[layer.dims.index(dim)]
        yield from (f"windows.{dim}: {said}" for said in _one_window(layer, window, before, after))


def _one_window(layer: Layer, window: Window, before: int, after: int) -> Iterator[str]:
    """`before` and `after` are the extents of the window's dim in input and output."""
    if window.wraps != (layer.kind is Kind.ROLL):
        yield f"wraps is {str(window.wraps).lower()} for a layer of kind {layer.kind}"
    if layer.kind in (Kind.PAD, Kind.CROP, Kind.ROLL):
        yield from _framing_complaints(layer.kind, window, before, after)
        return
    if window.padding < 0:
        yield f"padding is {window.padding}; must be at least 0"
    if window.output_padding and not window.transposed:
        yield f"output_padding is {window.output_padding}; must be 0 unless transposed is true"
    possible = _extents_after(layer, window, before)
    if after not in possible:
        told = " or ".join(map(str, sorted(possible)))
        yield f"makes {told} of {before}, but the output has {after}; shape and window must agree"


def _extents_after(layer: Layer, window: Window, before: int) -> set[int]:
    if window.transposed:
        return {(before - 1) * window.stride - 2 * window.padding + window.reach + window.output_padding}
    arguments = layer.options.get("arguments", {})
    room = before + 2 * window.padding - window.reach
    extents = {room // window.stride + 1}
    if arguments.get("padding") == "same":  # where the total is odd, one more behind the last position
        extents.add((room + 1) // window.stride + 1)
    if arguments.get("ceil_mode") is True:  # one more window, if it begins inside
        more = -(-room // window.stride) + 1
        extents = {more - ((more - 1) * window.stride >= before + window.padding)}
    return extents


def _framing_complaints(kind: Kind, window: Window, before: int, after: int) -> Iterator[str]:
    """Output position o is input position o * stride - padding."""
    if (window.kernel, window.dilation, window.transposed, window.output_padding) != (1, 1, False, 0):
        yield f"a layer of kind {kind} has a window of one position"
    first, last = -window.padding, (after - 1) * window.stride - window.padding
    if kind is Kind.CROP and not 0 <= first <= last < before:
        yield f"reads the positions {first} to {last} of {before}"
    if kind is Kind.ROLL and (before != after or window.stride != 1 or not 0 < abs(window.padding) <= before // 2):
        yield f"moves {before} positions by {window.padding} to {after}"
    if kind is Kind.PAD and (window.stride != 1 or not -before < window.padding < after):
        yield f"padding is {window.padding}, which leaves nothing of {before} positions in {after}"


def _extent_complaints(layer: Layer) -> Iterator[str]:
    """A letter is as long in the output as in every input, unless a window, a group or a new shape says otherwise."""
    items = [prod(shape) for shape in layer.input_shapes]
    if layer.kind.has(Trait.REARRANGES) and items[0] != prod(layer.shape):
        yield f"shape {list(layer.shape)} has not as many items as its input, {list(layer.input_shapes[0])}"
    if layer.kind is Kind.CONCAT and sum(items) != prod(layer.shape):
        yield f"shape {list(layer.shape)} has not as many items as its inputs together"
    if layer.kind is Kind.NORM and layer.shape != layer.input_shapes[0]:
        yield f"shape {list(layer.shape)} is not its input's, {list(layer.input_shapes[0])}: a norm keeps it"
    if layer.groups > 1:
        yield from _group_complaints(layer)
    known: dict[str, int] = _extents(layer.dims, layer.shape)
    for number, (dims, shape) in enumerate(zip(layer.input_dims, layer.input_shapes, strict=True)):
        for letter, size in _extents(dims, shape).items():
            other = known.setdefault(letter, size)
            if size != other and not _may_differ(layer, letter, size, other):
                yield f"{letter} is {size} in input_shapes[{number}] and {other} elsewhere; it must be the same"


def _may_differ(layer: Layer, letter: str, size: int, other: int) -> bool:
    if letter in layer.windows:
        return True  # checked by its window
    if layer.kind.has(Trait.REARRANGES) or letter == BATCH:
        return max(size, other) % min(size, other) == 0
    if letter == Dim.A and layer.kind is Kind.ATTENTION:  # several heads share a key
        return max(size, other) % min(size, other) == 0
    if letter == Dim.F and layer.kind is Kind.UPSAMPLE:  # channels become positions, or positions channels
        return prod(layer.shape) == prod(layer.input_shapes[0])
    return letter == Dim.F and layer.kind is Kind.CONV and layer.groups > 1


def _group_complaints(layer: Layer) -> Iterator[str]:
    if layer.kind not in (Kind.CONV, Kind.NORM):
        yield f"groups is {layer.groups}; a layer of kind {layer.kind} has 1"
    for dims, shape in ((layer.dims, layer.shape), (layer.input_dims[0], layer.input_shapes[0])):
        channels = _extents(dims, shape).get(Dim.F, 0)
        if not channels or channels % layer.groups:
            yield f"groups is {layer.groups}, which does not divide the {channels} channels of {list(shape)}"


def _held_complaints(layer: Layer) -> Iterator[str]:
    """Weights and buffers have the extents that their letters have in the layer's own tensors."""
    written = _extents(layer.dims, layer.shape)
    read: dict[str, int] = {}
    for dims, shape in zip(layer.input_dims, layer.input_shapes, strict=True):
        read |= _extents(dims, shape)
    for weight in (*layer.weights, *layer.buffers):
        for letter, size in _extents(weight.dims, weight.shape).items():
            if letter == Dim.C and layer.options.get("op") == _EMBEDDING:
                continue  # its rows: numbers choose among them
            wanted = {extents[letter] for extents in (written, read) if letter in extents}
            if size not in wanted:
                told = " or ".join(map(str, sorted(wanted))) or f"the extent of a dim, and no tensor has {letter}"
                yield f"{weight.name}: {letter} is {size} in shape {list(weight.shape)}; must be {told}"
    if layer.kind is Kind.CONV and layer.windows:
        yield from _kernel_complaints(layer)


def _kernel_complaints(layer: Layer) -> Iterator[str]:
    """A convolution's weight has a filter, a channel of its group, and the kernels of the windows."""
    dims, shape = layer.factor
    kernels = tuple(layer.windows[dim].kernel for dim in Dim if dim in layer.windows)
    whole = tuple(size for letter, size in zip(dims, shape, strict=True) if letter == WHOLE)
    if layer.groups > 1:
        transposed = next(iter(layer.windows.values())).transposed
        spelled, tensor = (layer.dims, layer.shape) if transposed else (layer.input_dims[0], layer.input_shapes[0])
        kernels = (_extents(spelled, tensor)[Dim.F] // layer.groups, *kernels)
    if whole != kernels:
        yield f"weight of shape {list(shape)}: {list(whole)} must be {list(kernels)}, as windows and groups have it"


def _extents(dims: str, shape: tuple[int, ...]) -> dict[str, int]:
    return {letter: size for letter, size in zip(dims, shape, strict=True) if letter != WHOLE}
