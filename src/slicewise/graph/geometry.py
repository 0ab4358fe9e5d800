"""Whether a window gives the extent that is written down for its output."""

from collections.abc import Iterator

from slicewise.graph.layer import Kind, Layer
from slicewise.graph.window import Window


def window_complaints(layer: Layer, window: Window, before: int, after: int) -> Iterator[str]:
    """`before` and `after` are the extents of the window's dim in input and output."""
    if layer.kind in (Kind.PAD, Kind.CROP):
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
    if kind is Kind.PAD and (window.stride != 1 or not -before < window.padding < after):
        yield f"padding is {window.padding}, which leaves nothing of {before} positions in {after}"
