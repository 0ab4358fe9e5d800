"""What the dims of an input mean: the first operator that cares says where the channels are."""

from torch import fx

from slicewise.graph.dims import WHOLE, Dim, space_letters
from slicewise.graph.nodes import operator_name

_CHANNELS_LAST = ("linear", "layer_norm", "rms_norm", "scaled_dot_product_attention")
_CHANNELS_FIRST = ("conv", "batch_norm", "instance_norm", "group_norm", "max_pool", "avg_pool", "adaptive", "upsample")
_MOVES = ("permute", "transpose", "movedim", "flatten", "view", "reshape", "unflatten", "select")


def input_letters(node: fx.Node, shape: tuple[int, ...]) -> str:
    """`NFHW`; `NHWF` where channels come last, as in a sequence; `NW` where every position is the number of a word."""
    space = len(shape) - 2
    reader = _first_reader(node, len(shape))
    if reader == "embedding" and 0 <= space + 1 <= 3:
        return Dim.N + space_letters(space + 1)
    if not 0 <= space <= 3:
        return Dim.N + WHOLE * (len(shape) - 1)
    if reader.startswith(_CHANNELS_LAST):
        return Dim.N + space_letters(space) + Dim.F
    return Dim.N + Dim.F + space_letters(space)


def _first_reader(node: fx.Node, dims: int) -> str:
    """The first operator behind an input that is about channels, unless the dims have moved before."""
    seen, waiting = {node}, list(node.users)
    while waiting:
        user = waiting.pop(0)
        if user in seen or user.op != "call_function" or not hasattr(user.target, "_schema"):
            continue
        seen.add(user)
        name = operator_name(user)[0]
        if name == "embedding" or name.startswith((*_CHANNELS_LAST, *_CHANNELS_FIRST)):
            return name
        if not name.startswith(_MOVES) or _keeps_last(user, name, dims):
            waiting += list(user.users)
    return ""


def _keeps_last(node: fx.Node, name: str, dims: int) -> bool:
    """A transpose of other dims than the last."""
    places = node.args[1:] if name == "transpose" else ()
    return bool(places) and all(isinstance(place, int) and place % dims != dims - 1 for place in places)
