"""Convolutions and linear layers. Weight and bias may be parameters, buffers, or computed by other layers."""

from slicewise.graph.dims import WHOLE, Dim, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, at, batched, rule
from slicewise.graph.window import Window


@rule("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(call: Call) -> Found:
    """`NCHW, FC.. -> NFHW`."""
    weight = call.operands["weight"].shape
    count = len(weight) - 2
    if not batched(call) or len(call.first.shape) != count + 2:
        return None
    transposed = "transpose" in call.operator
    groups = call.arguments["groups"]
    space = space_letters(count)
    windows = {
        Dim(letter): Window(
            kernel=weight[2 + position],
            stride=at(call.arguments["stride"], position),
            padding=_padding(call, weight, position),
            dilation=at(call.arguments["dilation"], position),
            transposed=transposed,
            output_padding=at(call.arguments["output_padding"], position) if transposed else 0,
        )
        for position, letter in enumerate(space)
    }
    if groups > 1:  # sliced by group: input and output channels together
        channels, weight_channels = "F", "F" + WHOLE
    else:
        channels, weight_channels = "C", "CF" if transposed else "FC"
    return Meaning(
        kind=Kind.CONV,
        operands=call.spelled(input=f"N{channels}{space}", weight=weight_channels + WHOLE * count, bias="F"),
        dims=f"NF{space}",
        windows=windows,
        groups=groups,
    )


def _padding(call: Call, weight: tuple[int, ...], position: int) -> int:
    """Before the first position; "same" pads one more behind the last where the total is odd."""
    padding = call.arguments["padding"]
    if padding == "valid":
        return 0
    if padding == "same":
        return at(call.arguments["dilation"], position) * (weight[2 + position] - 1) // 2
    return at(padding, position)


@rule("linear")
def linear(call: Call) -> Found:
    """`NC, FC -> NF`, and the same at every position of a channels-last tensor: `NHWC, FC -> NHWF`."""
    leading = call.first.letters[:-1].replace("F", WHOLE)  # F is what this layer makes
    return Meaning(
        kind=Kind.LINEAR,
        operands=call.spelled(input=f"{leading}C", weight="FC", bias="F"),
        dims=f"{leading}F",
    )


def matrix_product(call: Call) -> Found:
    """With a matrix on the right that all samples share, and which has its inputs first: `NC, CF -> NF`."""
    left, right = call.operands.values()
    if len(right.shape) != 2 or len(left.shape) < 2 or Dim.N in right.letters:
        return None
    leading = left.letters[:-1].replace("F", WHOLE)
    names = list(call.operands)
    return Meaning(kind=Kind.LINEAR, operands=dict(zip(names, (f"{leading}C", "CF"), strict=True)), dims=f"{leading}F")
