"""Pooling: windows without weights. Pooling down to one position is a reduction (see reductions.py)."""

from slicewise.graph.dims import WHOLE, Dim, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Meaning, at, batched, rule
from slicewise.graph.rules.reductions import reduction
from slicewise.graph.window import Window


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def pooling(call: Call) -> Found:
    count = int(call.operator[-2])
    if not batched(call) or len(call.shape) != count + 2:
        return None
    arguments = call.arguments
    kernel = arguments["kernel_size"]
    windows = {
        Dim(letter): Window(
            kernel=at(kernel, position),
            stride=at(arguments["stride"] or kernel, position),
            padding=at(arguments["padding"], position),
            dilation=at(arguments.get("dilation", 1), position),
        )
        for position, letter in enumerate(space_letters(count))
    }
    return _windowed(call, windows)


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_averages(call: Call) -> Found:
    """A mean over space where one position is left; windows where the sizes divide; whole otherwise."""
    count = int(call.operator[-2])
    if call.shape == call.first.shape:
        return SAME
    if set(call.shape[-count:]) == {1}:
        return reduction(call, list(range(-count, 0)), keep=True, mean=True)
    return _adaptive(call, count)


@rule("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_maxima(call: Call) -> Found:
    return _adaptive(call, int(call.operator[-2]))


def _adaptive(call: Call, count: int) -> Found:
    if not batched(call) or len(call.shape) != count + 2:
        return None
    windows = {}
    for letter, size, parts in zip(space_letters(count), call.first.shape[2:], call.shape[2:], strict=True):
        if size % parts == 0:
            windows[Dim(letter)] = Window(kernel=size // parts, stride=size // parts)
    return _windowed(call, windows)


def _windowed(call: Call, windows: dict[Dim, Window]) -> Meaning:
    """Channels pass through; only the spatial dims that have a window can be sliced."""
    letters = "NF" + space_letters(len(call.shape) - 2)
    dims = "".join(letter if letter in "NF" or letter in windows else WHOLE for letter in letters)
    return Meaning(
        kind=Kind.POOL, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=letters, windows=windows
    )
