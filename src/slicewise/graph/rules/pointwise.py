"""Element-wise operators, with broadcasting; and those that mix one dim and leave the others alone."""

from slicewise.graph.dims import ONE, WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Meaning, Source, once_each, rule, without

_ACTIVATIONS = """
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid silu
    softplus softshrink tanh threshold
"""
_FUNCTIONS = """
    abs acos acosh angle asin asinh atan atanh bitwise_not ceil clamp clamp_max clamp_min cos cosh detach erf erfc
    erfinv exp exp2 expm1 fill floor frac full_like imag isfinite isinf isnan log log10 log1p log2 logical_not logit
    nan_to_num neg ones_like pow real reciprocal round rsqrt sgn sign sin sinc sinh sqrt square tan trunc zero
    zeros_like
"""
_COMBINATIONS = """
    add addcdiv addcmul atan2 bitwise_and bitwise_or bitwise_xor copy copysign div eq floor_divide fmax fmin fmod ge gt
    hypot le lerp logaddexp logical_and logical_or logical_xor lt masked_fill maximum minimum mul ne remainder rsub sub
    where xlogy
"""


@rule(*_ACTIVATIONS.split(), *_FUNCTIONS.split(), *_COMBINATIONS.split())
def elementwise(call: Call) -> Found:
    """Every operand has the output's letters, but for dims that it lacks or that are stretched from size 1."""
    letters = agreed(call)
    operands = {name: aligned(operand.shape, letters, call.shape) for name, operand in call.operands.items()}
    weights = {dims for name, dims in operands.items() if call.operands[name].source is Source.WEIGHT}
    if len(weights) > 1:
        return None  # the gradient of one would be summed over axes that slice the other
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=letters)


@rule("prelu")
def prelu(call: Call) -> Found:
    """One slope per channel, or one for all."""
    letters = call.first.letters
    slopes = call.operands["weight"].shape
    per_channel = letters[1:2] if slopes != (1,) and slopes else WHOLE * len(slopes)
    return Meaning(kind=Kind.ELEMENTWISE, operands=call.spelled(self=letters, weight=per_channel), dims=letters)


@rule("embedding")
def embedding(call: Call) -> Found:
    """A row of the table for every number: `NW, CF -> NWF`. With some of the rows, a sum over C of rows and zeros."""
    numbers = call.operands["indices"].letters.replace("F", WHOLE)
    if call.arguments["sparse"] or call.arguments["scale_grad_by_freq"]:
        return None
    operands = call.spelled(weight="CF", indices=numbers)
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=f"{numbers}F")


@rule("alias", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "to", "_to_copy")
def same_values(call: Call) -> Found:
    """Nothing to do, unless the dtype changes."""
    return elementwise(call) if call.arguments["casts"] else SAME


@rule("dropout")
def dropout(call: Call) -> Found:
    return elementwise(call) if call.arguments["train"] and call.arguments["p"] > 0 else SAME


@rule("feature_dropout")
def feature_dropout(call: Call) -> Found:
    """Whole channels are dropped: the mask has no space."""
    letters = call.first.letters
    if not call.arguments["train"] or call.arguments["p"] == 0:
        return SAME
    mask = letters[:2] + ONE * (len(letters) - 2)
    return Meaning(
        kind=Kind.ELEMENTWISE, operands=dict.fromkeys(call.operands, letters), dims=letters, options={"mask": mask}
    )


@rule("drop_path")
def drop_path(call: Call) -> Found:
    """Stochastic depth, put together again from what export made of it (graph/masks.py)."""
    letters = call.first.letters
    shape = call.arguments["shape"]
    sizes = [1] * (len(letters) - len(shape)) + shape
    numbers = {name: call.arguments[name] for name in ("p", "scale")}
    return Meaning(
        kind=Kind.ELEMENTWISE,
        operands=dict.fromkeys(call.operands, letters),
        dims=letters,
        options={
            "op": "slicewise.drop_path",
            "arguments": {**numbers, "train": True},
            "mask": "".join(ONE if size == 1 else letter for letter, size in zip(letters, sizes, strict=True)),
        },
    )


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "glu", "flip", "cumsum", "cumprod", "argsort")
def along_a_dim(call: Call) -> Found:
    """Everything else about a position is independent; what mixes samples needs all of them."""
    mixed = call.arguments.get("dim", call.arguments.get("dims"))
    if mixed == []:
        return None  # all dims as one
    dims = without(call.first.letters, [mixed] if isinstance(mixed, int) else mixed or [])
    if Dim.N in call.first.letters and Dim.N not in dims:
        return None
    return Meaning(
        kind=Kind.ELEMENTWISE, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=call.first.letters
    )


_FOURIER = [
    f"fft_{name}{count}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for count in ("", "2", "n")
]


@rule("topk[0]", "topk[1]", "sort[0]", "sort[1]", *_FOURIER)
def along_dims_of_a_sample(call: Call) -> Found:
    """The same, where the dims that are mixed may change their sizes; the batch is none of them."""
    given = call.arguments.get("dim")
    mixed = [given] if isinstance(given, int) else given or list(range(len(call.shape)))
    dims = without(call.first.letters, mixed)
    if Dim.N not in dims:
        return None
    return Meaning(
        kind=Kind.ELEMENTWISE, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=call.first.letters
    )


@rule("unfold")
def sliding(call: Call) -> Found:
    """Windows of one dim, whose positions get a dim of their own, the last."""
    letters = call.first.letters
    dims = without(letters, [call.arguments["dimension"]])
    if Dim.N not in dims:
        return None
    operands = dict.fromkeys(call.operands, dims)
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=dims + WHOLE, letters=letters + WHOLE)


@rule("one_hot")
def one_hot(call: Call) -> Found:
    """A dim of its own for the classes, the last."""
    letters = call.first.letters
    return Meaning(kind=Kind.ELEMENTWISE, operands=dict.fromkeys(call.operands, letters), dims=letters + WHOLE)


@rule("cosine_similarity")
def compared(call: Call) -> Found:
    """Two tensors along a dim, which goes."""
    whole = tuple(map(max, *(operand.shape for operand in call.operands.values())))
    if {len(operand.shape) for operand in call.operands.values()} != {len(whole)}:
        return None
    dim = call.arguments["dim"] % len(whole)
    letters = without(agreed(call), [dim])
    operands = {name: aligned(operand.shape, letters, whole) for name, operand in call.operands.items()}
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=letters[:dim] + letters[dim + 1 :])


@rule("view_as_complex", "view_as_real")
def paired(call: Call) -> Found:
    """A complex number is a pair of real ones, in a last dim of its own: `NFW. -> NFW`, and back."""
    read = call.first.letters
    written = read[:-1] if call.operator == "view_as_complex" else read + WHOLE
    own = read[:-1] + WHOLE if call.operator == "view_as_complex" else read
    return Meaning(kind=Kind.ELEMENTWISE, operands=dict.fromkeys(call.operands, own), dims=written)


@rule("slice_scatter", "select_scatter")
def scattered(call: Call) -> Found:
    """Some positions of a dim are replaced: the dim is whole, and gone from what replaces one of it."""
    letters = call.first.letters
    dim = call.arguments["dim"] % len(letters)
    dims = without(letters, [dim])
    written = dims if call.operator == "slice_scatter" else dims[:dim] + dims[dim + 1 :]
    return Meaning(kind=Kind.ELEMENTWISE, operands=call.spelled(self=dims, src=written), dims=dims, letters=letters)


@rule("im2col", "col2im", "grid_sampler", "gather", "take_along_dim", "scatter", "scatter_add", "scatter_reduce")
def sample_by_sample(call: Call) -> Found:
    """Positions of a sample are mixed, samples never: `N..., N... -> N...`."""
    along = call.arguments.get("dim")
    batch = {operand.letters[:1] for operand in call.operands.values()} | {str(Dim.N)}
    sizes = {operand.shape[0] for operand in call.operands.values() if operand.shape} | set(call.shape[:1])
    if len(batch) > 1 or len(sizes) > 1 or along == 0 or along == -len(call.shape):
        return None
    operands = {name: Dim.N + WHOLE * (len(operand.shape) - 1) for name, operand in call.operands.items()}
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=Dim.N + WHOLE * (len(call.shape) - 1))


@rule("index", "index_select")
def indexed(call: Call) -> Found:
    """Positions that numbers choose, the same for all samples: `N..., . -> N...`."""
    chosen = call.arguments.get("indices", [])
    first = call.arguments["dim"] % len(call.first.shape) == 0 if call.operator == "index_select" else bool(chosen[0])
    letters = [operand.letters for operand in call.operands.values()]
    moved = call.shape[:1] != call.first.shape[:1]  # numbers for dims that are apart come first
    if first or moved or letters[0][:1] != Dim.N or any(Dim.N in index for index in letters[1:]):
        return None
    operands = {name: WHOLE * len(operand.shape) for name, operand in call.operands.items()}
    operands[next(iter(operands))] = Dim.N + WHOLE * (len(call.first.shape) - 1)
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=Dim.N + WHOLE * (len(call.shape) - 1))


@rule("expand", "repeat")
def repeated(call: Call) -> Found:
    """Dims of size 1 are stretched; what else is repeated stays whole."""
    shape = call.first.shape
    added = len(call.shape) - len(shape)
    letters = WHOLE * added + call.first.letters
    dims = "".join(
        letter if old in (1, new) else WHOLE
        for letter, old, new in zip(letters, (1,) * added + shape, call.shape, strict=True)
    )
    if call.shape == shape:
        return SAME
    operands = dict.fromkeys(call.operands, aligned(shape, dims, call.shape))
    return Meaning(kind=Kind.ELEMENTWISE, operands=operands, dims=dims, letters=letters)


@rule("repeat_interleave")
def repeated_in_place(call: Call) -> Found:
    """Every position several times in a row, as heads share keys: a dim of its own, stretched and merged."""
    dim, times = call.arguments["dim"], call.arguments["repeats"]
    letters, shape = call.first.letters, call.first.shape
    if dim is None or type(times) is not int or letters[dim] == Dim.N:
        return None
    behind = dim % len(shape) + 1
    apart, sizes = letters[:behind] + WHOLE + letters[behind:], (shape[:behind], shape[behind:])
    return (
        Meaning(
            kind=Kind.VIEW,
            operands=dict.fromkeys(call.operands, letters),
            dims=apart,
            options={"op": "aten.unsqueeze.default"},
            shape=(*sizes[0], 1, *sizes[1]),
        ),
        Meaning(
            kind=Kind.ELEMENTWISE,
            operands={"input": apart},
            dims=apart,
            options={"op": "aten.expand.default"},
            shape=(*sizes[0], times, *sizes[1]),
        ),
        Meaning(kind=Kind.VIEW, operands={"input": apart}, dims=letters, options={"op": "aten.reshape.default"}),
    )


@rule("cat")
def concat(call: Call) -> Found:
    """`N.HW, N.HW -> N.HW`."""
    if len(call.operands) == 1:
        return SAME
    letters = agreed(call)
    dims = without(letters, [call.arguments["dim"]])
    return Meaning(kind=Kind.CONCAT, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=letters)


@rule("stack")
def stack(call: Call) -> Found:
    letters = agreed(call)
    place = call.arguments["dim"] % len(call.shape)
    dims = letters[:place] + WHOLE + letters[place:]
    return Meaning(kind=Kind.CONCAT, operands=dict.fromkeys(call.operands, letters), dims=dims)


def agreed(call: Call) -> str:
    """What each dim means to every operand that names it; unknown where they differ or a letter would come twice."""
    longest = max(len(operand.shape) for operand in call.operands.values())
    padded = [operand.letters.rjust(longest, WHOLE) for operand in call.operands.values()]
    letters = ""
    for named in (set(column) - {WHOLE} for column in zip(*padded, strict=True)):
        letters += named.pop() if len(named) == 1 else WHOLE
    return once_each(letters)


def aligned(shape: tuple[int, ...], letters: str, whole: tuple[int, ...]) -> str:
    """The letters of an operand that is broadcast to `whole`, last dims together."""
    missing = len(whole) - len(shape)
    return "".join(
        letter if size == full else WHOLE
        for letter, size, full in zip(letters[missing:], shape, whole[missing:], strict=True)
    )
