"""Losses inside a model: a sum over what a device has, and for a mean a count of it, both left in parts."""

from slicewise.graph.dims import WHOLE, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, rule
from slicewise.graph.rules.pointwise import agreed

_NONE, _MEAN, _SUM = 0, 1, 2  # as ATen numbers reductions


@rule("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d")
def classification(call: Call) -> Found:
    """`N.HW, NHW -> ` sum and count, then their ratio. Ignored targets do not count, weighted ones by their weight."""
    if len(call.first.shape) < 2 or "target" not in call.operands:
        return None
    space = space_letters(len(call.first.shape) - 2)
    scores = f"N{WHOLE}{space}"
    by_class = len(call.operands["target"].shape) == len(call.first.shape) - 1
    operands = call.spelled(self=scores, target=f"N{space}" if by_class else scores, weight=WHOLE)
    return _in_parts(call, operands, f"N{space}")


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
def pointwise(call: Call) -> Found:
    if any(operand.shape != call.first.shape for operand in call.operands.values()):
        return None
    letters = agreed(call)
    return _in_parts(call, dict.fromkeys(call.operands, letters), letters)


def _in_parts(call: Call, operands: dict[str, str], unreduced: str) -> Found:
    reduction = call.arguments["reduction"]
    if reduction == _NONE:
        return Meaning(kind=Kind.LOSS, operands=operands, dims=unreduced)
    if reduction == _SUM:
        return Meaning(kind=Kind.LOSS, operands=operands, dims="")
    parts = Meaning(kind=Kind.LOSS, operands=operands, dims=WHOLE, options={"counts": True}, shape=(2,))
    ratio = Meaning(kind=Kind.ELEMENTWISE, operands={"input": WHOLE}, dims="", options={"op": "slicewise.ratio"})
    return parts, ratio
