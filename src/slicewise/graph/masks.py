"""Stochastic depth, as models write it out, put together again.

    floor(rand(N, 1, 1, 1) + keep) * (x / keep)               transformers, monai
    x * empty(N, 1, 1, 1).bernoulli_(keep).div_(keep)         torchvision, timm

Only as a whole can it rest in eval mode, and draw one mask for all slices of a sample.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import fx


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """x * Bernoulli(keep) of `shape` * scale."""

    x: fx.Node
    shape: tuple[int, ...]
    keep: float
    scale: float


@dataclass(frozen=True, slots=True)
class _Drawn:
    shape: tuple[int, ...]
    keep: float
    scale: float
    nodes: tuple[fx.Node, ...]


def find_masks(graph: fx.Graph) -> tuple[dict[fx.Node, Mask], set[fx.Node]]:
    """The multiplications that end a mask, and the nodes before them that it is made of."""
    masks: dict[fx.Node, Mask] = {}
    parts: set[fx.Node] = set()
    for node in graph.nodes:
        if _operator(node) != "mul":
            continue
        for x, other in (node.args[:2], node.args[1::-1]):
            drawn = _drawn(other)
            if not isinstance(x, fx.Node) or drawn is None or not _only_for(node, drawn):
                continue
            scaled = _divided(x) if len(x.users) == 1 and drawn.scale == 1.0 else None
            if scaled is None or scaled[1] != drawn.keep:  # what divides by another number does so in eval mode too
                masks[node] = Mask(x=x, shape=drawn.shape, keep=drawn.keep, scale=drawn.scale)
                parts |= {*drawn.nodes}
            else:
                masks[node] = Mask(x=scaled[0], shape=drawn.shape, keep=drawn.keep, scale=1 / drawn.keep)
                parts |= {*drawn.nodes, x}
            break
    return masks, parts


def _drawn(value: Any) -> _Drawn | None:
    if not isinstance(value, fx.Node):
        return None
    scaled = _divided(value)
    if scaled:
        before = _drawn(scaled[0])
        return before and replace(before, scale=before.scale / scaled[1], nodes=(*before.nodes, value))
    if _operator(value) == "bernoulli" and len(value.args) == 2 and isinstance(value.args[1], float):
        empty = value.args[0]
        if isinstance(empty, fx.Node) and _operator(empty) in ("empty", "new_empty", "empty_like"):
            return _Drawn(_shape(value), value.args[1], 1.0, (empty, value))
    if _operator(value) == "floor":
        added = value.args[0]
        if isinstance(added, fx.Node) and _operator(added) == "add":
            rand, keep = added.args[0], added.args[1]
            if isinstance(rand, fx.Node) and _operator(rand) == "rand" and isinstance(keep, float):
                return _Drawn(_shape(value), keep, 1.0, (rand, added, value))
    return None


def _divided(node: fx.Node) -> tuple[fx.Node, float] | None:
    if _operator(node) == "div" and isinstance(node.args[0], fx.Node) and isinstance(node.args[1], (int, float)):
        return node.args[0], float(node.args[1])
    return None


def _only_for(node: fx.Node, drawn: _Drawn) -> bool:
    """Whether nobody else reads what the mask is made of."""
    return all(set(part.users) <= {node, *drawn.nodes} for part in drawn.nodes)


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _operator(node: Any) -> str:
    """'div' for aten.div.Tensor and aten.div_.Tensor."""
    name = str(node.target) if node.op == "call_function" else ""
    return name.split(".")[1].rstrip("_") if name.startswith("aten.") else ""
