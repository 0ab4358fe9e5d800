"""Operators that return several tensors, as one call per tensor."""

from dataclasses import dataclass, replace
from typing import Any

from torch import fx


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One of the tensors: the call that gives it. `output` is its number where the executor must choose it."""

    operator: str
    op: str
    arguments: dict[str, Any]
    operands: tuple[str, ...]  # those of the bundle's that it needs
    output: int | None = None


_CHUNKS = ("chunk", "split", "split_with_sizes", "tensor_split")
_EXTREMA = ("max", "min")


def item(bundle: fx.Node, whole: Item, number: int) -> Item:
    """Tensor `number` of what `bundle` returns; `whole` is the call as it stands."""
    operator, arguments = whole.operator, whole.arguments
    if operator in _CHUNKS:
        dim = arguments["dim"]
        sizes = [part.shape[dim] for part in bundle.meta["val"]]
        start = sum(sizes[:number])
        cut = {"self": arguments["self"], "dim": dim, "start": start, "end": start + sizes[number], "step": 1}
        return replace(whole, operator="slice", op="aten.slice.Tensor", arguments=cut)
    if operator == "unbind":
        return replace(whole, operator="select", op="aten.select.int", arguments={**arguments, "index": number})
    if operator == "broadcast_tensors":
        shape = list(bundle.meta["val"][number].shape)
        return Item(
            operator="expand",
            op="aten.expand.default",
            arguments={"self": {"input": 0}, "size": shape},
            operands=(f"tensors.{number}",),
        )
    if operator.endswith("_with_indices") and number == 0:
        plain = operator.removesuffix("_with_indices")
        return replace(whole, operator=plain, op=f"aten.{plain}.default")
    if operator in _EXTREMA or (operator.startswith("adaptive_max_pool") and number == 0):
        return replace(whole, output=number)
    return replace(whole, operator=f"{operator}[{number}]", output=number)
