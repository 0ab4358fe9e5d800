"""What each ATen operator means as a layer: its kind, the letters of its tensors, its windows.

One function per family, registered under the operators' names. A function returns the Meaning of a call, or None where
this use of the operator is one it cannot follow. Torch-free: a `Call` carries shapes only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slicewise.graph.dims import BATCH, WHOLE, Dim, space_letters
from slicewise.graph.layer import Kind
from slicewise.graph.window import Window

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator call, as torch.export saw it."""

    operator: str  # "conv2d"
    arguments: dict[str, Any]
    input_shapes: tuple[Shape, ...]
    input_letters: tuple[str, ...]  # what each dim of each input means: N, F, D, H, W or unknown
    weight_shapes: tuple[Shape, ...]
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """How a call becomes a layer. `letters` is what the output's dims mean, sliceable here or not."""

    kind: Kind
    input_dims: tuple[str, ...]
    dims: str
    letters: str
    weight_dims: tuple[str, ...] = ()
    windows: dict[Dim, Window] | None = None
    groups: int = 1
    statistics: str = ""


Rule = Callable[[Call], Meaning | None]
RULES: dict[str, Rule] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


@rule("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(call: Call) -> Meaning | None:
    if not _has_own_weights(call):
        return None
    shape, weight = call.input_shapes[0], call.weight_shapes[0]
    count = len(weight) - 2
    if not _batched(call) or len(shape) != count + 2 or isinstance(call.arguments["padding"], str):
        return None
    transposed = "transpose" in call.operator
    groups = call.arguments["groups"]
    space = space_letters(count)
    windows = {
        Dim(letter): Window(
            kernel=weight[2 + position],
            stride=_at(call.arguments["stride"], position),
            padding=_at(call.arguments["padding"], position),
            dilation=_at(call.arguments["dilation"], position),
            transposed=transposed,
            output_padding=_at(call.arguments["output_padding"], position) if transposed else 0,
        )
        for position, letter in enumerate(space)
    }
    # Grouped convolutions slice by group: input and output channels together.
    channels = "C" if groups == 1 else "F"
    weight_channels = "FC" if groups == 1 else "F" + WHOLE
    if transposed:
        weight_channels = weight_channels[::-1] if groups == 1 else weight_channels
    return Meaning(
        kind=Kind.CONV,
        input_dims=(f"N{channels}{space}",),
        dims=f"NF{space}",
        letters=f"NF{space}",
        weight_dims=(weight_channels + WHOLE * count, "F")[: len(call.weight_shapes)],
        windows=windows,
        groups=groups,
    )


@rule("linear")
def linear(call: Call) -> Meaning | None:
    if not _has_own_weights(call):
        return None
    leading = call.input_letters[0][:-1].replace("F", WHOLE)  # F is what this layer makes
    return Meaning(
        kind=Kind.LINEAR,
        input_dims=(f"{leading}C",),
        dims=f"{leading}F",
        letters=f"{leading}F",
        weight_dims=("FC", "F")[: len(call.weight_shapes)],
    )


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def pooling(call: Call) -> Meaning | None:
    count = int(call.operator[-2])
    if not _batched(call) or len(call.shape) != count + 2:
        return None
    arguments = call.arguments
    kernel = arguments["kernel_size"]
    windows = {
        Dim(letter): Window(
            kernel=_at(kernel, position),
            stride=_at(arguments["stride"] or kernel, position),
            padding=_at(arguments["padding"], position),
            dilation=_at(arguments.get("dilation", 1), position),
        )
        for position, letter in enumerate(space_letters(count))
    }
    # An average divides by the number of positions, which differs at padded borders: keep those dims whole.
    averaging = call.operator.startswith("avg")
    plain = not averaging or not (arguments["ceil_mode"] or any(w.padding for w in windows.values()))
    return _windowed(Kind.POOL, call, windows if plain else {})


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_pooling(call: Call) -> Meaning | None:
    count = int(call.operator[-2])
    if not _batched(call) or len(call.shape) != count + 2:
        return None
    windows = {}
    for letter, size, parts in zip(space_letters(count), call.input_shapes[0][2:], call.shape[2:], strict=True):
        if size % parts == 0:
            windows[Dim(letter)] = Window(kernel=size // parts, stride=size // parts)
    return _windowed(Kind.POOL, call, windows)


def _windowed(kind: Kind, call: Call, windows: dict[Dim, Window]) -> Meaning:
    """Channels pass through; only the spatial dims that have a window can be sliced."""
    letters = "NF" + space_letters(len(call.shape) - 2)
    dims = "".join(letter if letter in "NF" or letter in windows else WHOLE for letter in letters)
    return Meaning(kind=kind, input_dims=(dims,), dims=dims, letters=letters, windows=windows)


@rule("batch_norm", "instance_norm")
def norm(call: Call) -> Meaning | None:
    tracks_instances = call.operator == "instance_norm" and call.arguments["running_mean"] is not None
    if tracks_instances or not _has_own_weights(call):
        return None
    space = space_letters(len(call.shape) - 2)
    dims = f"NF{space}"
    return Meaning(
        kind=Kind.NORM,
        input_dims=(dims,),
        dims=dims,
        letters=dims,
        weight_dims=("F",) * len(call.weight_shapes),
        statistics=f"N{space}" if call.operator == "batch_norm" else space,
    )


_UNARY = (
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "hardswish",
    "hardtanh",
    "dropout",
)
_BINARY = ("add", "sub", "mul", "div")


@rule(*_UNARY, *_BINARY, "softplus", "mish", "hardsigmoid", "exp", "neg", "clone", "contiguous")
def elementwise(call: Call) -> Meaning | None:
    if any(len(shape) != len(call.shape) for shape in call.input_shapes) or not _reads_only_inputs(call):
        return None
    letters = _agreed(call)
    input_dims = tuple(
        # a dim of size 1 that is stretched over the output's is not sliced with it
        "".join(
            letter if size == whole else WHOLE for letter, size, whole in zip(letters, shape, call.shape, strict=True)
        )
        for shape in call.input_shapes
    )
    return Meaning(kind=Kind.ELEMENTWISE, input_dims=input_dims, dims=letters, letters=letters)


def _agreed(call: Call) -> str:
    """What each dim means to every input that names it; unknown where they differ or a letter would come twice."""
    agreed = []
    for letters in zip(*call.input_letters, strict=True):
        named = {Dim.N.value if letter == BATCH else letter for letter in letters} - {WHOLE}
        agreed.append(named.pop() if len(named) == 1 else WHOLE)
    return "".join(letter if agreed.count(letter) == 1 else WHOLE for letter in agreed)


@rule("cat", "concat")
def concat(call: Call) -> Meaning | None:
    if not _reads_only_inputs(call):
        return None
    joined = call.arguments["dim"] % len(call.shape)
    letters = _agreed(call)
    dims = letters[:joined] + WHOLE + letters[joined + 1 :]
    return Meaning(kind=Kind.CONCAT, input_dims=(dims,) * len(call.input_shapes), dims=dims, letters=letters)


@rule("flatten", "view", "reshape")
def flatten(call: Call) -> Meaning | None:
    (shape,) = call.input_shapes
    whole_sample = len(call.shape) == 2 and call.shape[0] == shape[0]
    if not whole_sample or not call.input_letters[0].startswith("NF"):
        return None
    return Meaning(kind=Kind.FLATTEN, input_dims=("NF" + WHOLE * (len(shape) - 2),), dims="NF", letters="NF")


def _has_own_weights(call: Call) -> bool:
    """Whether weight and bias are parameters, which the runtime holds in parts; not buffers, not computed."""
    references = [call.arguments["weight"], call.arguments["bias"]]
    return all(reference is None or "weight" in reference for reference in references)


def _reads_only_inputs(call: Call) -> bool:
    """Whether no parameter or buffer, which nobody would cut along, is among the operands."""
    operands = list(call.arguments.values())
    operands += [item for operand in operands if isinstance(operand, list) for item in operand]
    return all("input" in operand for operand in operands if isinstance(operand, dict))


def _batched(call: Call) -> bool:
    """Whether dim 0 of the input is the batch, and nothing else."""
    return call.input_letters[0][:1] in (Dim.N, BATCH)


def _at(value: int | list[int], position: int) -> int:
    """Torch takes one number for all dims, or one each."""
    return value if isinstance(value, int) else value[position % len(value)]
