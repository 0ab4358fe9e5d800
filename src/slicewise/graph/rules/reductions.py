"""Sums and means over dims: `NFHW -> NF..`. Sliced along a dim that goes, a device is left with a summand."""

from typing import Any

from slicewise.graph.dims import WHOLE
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, Shape, rule, without


@rule("mean", "sum")
def mean_or_sum(call: Call) -> Found:
    if call.arguments.get("dtype") is not None:
        return None
    return reduction(call, call.arguments.get("dim"), _keeps(call), mean=call.operator == "mean")


@rule("linalg_vector_norm", "norm")
def euclidean_norm(call: Call) -> Found:
    """The root of a sum of squares: only the sum can be left in parts."""
    order = call.arguments.get("ord", call.arguments.get("p", 2))
    if call.arguments.get("dtype") is not None:
        return None
    if order not in (2, None):
        return other_reductions(call)
    squares = reduction(call, call.arguments.get("dim"), _keeps(call), squares=True)
    letters = squares.letters or squares.dims
    root = Meaning(kind=Kind.ELEMENTWISE, operands={"input": letters}, dims=letters, options={"op": "slicewise.root"})
    return squares, root


@rule(
    *("all", "any", "amax", "amin", "var", "std", "logsumexp", "max", "min", "argmax", "argmin", "prod", "nansum"),
    *("nanmean", "count_nonzero", "median[0]", "kthvalue[0]"),
)
def other_reductions(call: Call) -> Found:
    """What is no sum keeps the dims that go whole."""
    dim = call.arguments.get("dim")
    dims = _positions(dim, call.first.shape)
    if len(call.operands) != 1:
        return None  # max of two tensors
    kept = _after(call.first.letters, dims, _keeps(call))
    return Meaning(
        kind=Kind.ELEMENTWISE,
        operands=dict.fromkeys(call.operands, without(call.first.letters, dims)),
        dims=kept,
    )


def reduction(
    call: Call, dim: int | list[int] | None, keep: bool, *, mean: bool = False, squares: bool = False
) -> Meaning:
    """Over `dim`, or all dims where there is none."""
    dims = _positions(dim, call.first.shape)
    arguments: dict[str, Any] = {"dims": dims, "keep": keep, "mean": mean}
    return Meaning(
        kind=Kind.REDUCE,
        operands=dict.fromkeys(call.operands, call.first.letters),
        dims=_after(call.first.letters, dims, keep),
        options={"arguments": {**arguments, "squares": True} if squares else arguments},
        shape=call.shape,
    )


def _positions(dim: int | list[int] | None, shape: Shape) -> list[int]:
    given = [dim] if isinstance(dim, int) else dim or range(len(shape))
    return sorted(position % len(shape) for position in given) if shape else []


def _after(letters: str, dims: list[int], keep: bool) -> str:
    """The letters that are left. A batch that is summed up is no batch any more."""
    return "".join(
        WHOLE if position in dims else letter for position, letter in enumerate(letters) if keep or position not in dims
    )


def _keeps(call: Call) -> bool:
    return bool(call.arguments.get("keepdim", False))
