"""Larger space: by a whole number, every input position writes to a window of the output, as in a transposed conv."""

from slicewise.graph.dims import WHOLE, Dim, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Meaning, batched, rule
from slicewise.graph.window import Window

_REACH = {"linear": 1, "bilinear": 1, "trilinear": 1, "bicubic": 2}  # input positions to either side


@rule(
    *(f"{name}{count}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for count in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
)
def upsample(call: Call) -> Found:
    """Where corners are aligned or the factor is no whole number, space stays whole.

    A factor that is given counts, not that of the sizes: 2.05 makes 12 positions of 6, but not those that 2 makes.
    """
    count = len(call.shape) - 2
    if not batched(call):
        return None
    sizes = list(zip(call.first.shape[2:], call.shape[2:], strict=True))
    factors = call.arguments.get("scale_factors") or [large / small for small, large in sizes]
    if set(factors) == {1}:
        return SAME
    reach = _REACH.get(call.operator.removeprefix("upsample_")[:-2], 0)
    letters = "NF" + space_letters(count)
    windows = {
        Dim(letter): _window(large // small, reach)
        for letter, (small, large), factor in zip(letters[2:], sizes, factors, strict=True)
        if large == small * factor and large % small == 0 and not call.arguments.get("align_corners")
    }
    dims = "".join(letter if letter in "NF" or letter in windows else WHOLE for letter in letters)
    return Meaning(
        kind=Kind.UPSAMPLE, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=letters, windows=windows
    )


@rule("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def antialiased(call: Call) -> Found:
    """How far an output reads depends on the factor: space stays whole."""
    if not batched(call):
        return None
    dims = "NF" + WHOLE * (len(call.shape) - 2)
    letters = "NF" + space_letters(len(call.shape) - 2)
    return Meaning(kind=Kind.UPSAMPLE, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=letters)


def _window(factor: int, reach: int) -> Window:
    """Position i is read by the outputs whose centre lies less than `reach` input positions from its own."""
    if reach == 0:
        return Window(kernel=factor, stride=factor, transposed=True)
    kernel = 2 * reach * factor - factor % 2
    return Window(kernel=kernel, stride=factor, padding=(2 * reach - 1) * factor // 2, transposed=True)


@rule("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(call: Call) -> Found:
    """Channels become space, or space channels: r x r positions and a channel are r x r channels and a position."""
    if not batched(call) or len(call.shape) != 4:
        return None
    grows = call.operator == "pixel_shuffle"
    factor = call.arguments["upscale_factor" if grows else "downscale_factor"]
    window = Window(kernel=factor, stride=factor, transposed=grows)
    return Meaning(
        kind=Kind.UPSAMPLE,
        operands=dict.fromkeys(call.operands, "NFHW"),
        dims="NFHW",
        windows={Dim.H: window, Dim.W: window},
    )
