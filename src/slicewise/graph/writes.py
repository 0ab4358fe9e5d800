"""Writing into a part of a tensor, without writing: `x[:, 0] += y` makes a new x.

part = select(x, 1, 0)             part = select(x, 1, 0)
add_(part, y)               ->     sum  = add(part, y)
use(x)                             new  = select_scatter(x, sum, 1, 0)
                                   use(new)
"""

from itertools import pairwise
from typing import Any

import torch
from torch import fx

from slicewise.graph.nodes import functional_name, operator_name

_aten = torch.ops.aten
_SCATTERS = {_aten.slice.Tensor: _aten.slice_scatter.default, _aten.select.int: _aten.select_scatter.default}


def write_new_tensors(graph: fx.Graph) -> None:
    """In-place operators on slices of computed tensors; where other views of them are read later, nothing changes."""
    for node in list(graph.nodes):
        chain = _chain(node)
        if chain and not _seen_elsewhere(graph, node, chain):
            _write(graph, node, chain)


def _chain(node: fx.Node) -> list[fx.Node]:
    """The slices that an in-place operator writes through, innermost first, and the tensor that they are of."""
    if not isinstance(node.target, torch._ops.OpOverload) or not operator_name(node)[1] or not node.args:
        return []
    chain, at = [], node.args[0]
    while isinstance(at, fx.Node) and at.target in _SCATTERS:
        chain.append(at)
        at = at.args[0]
    whole = isinstance(at, fx.Node) and memory(at).op == "call_function"
    return [*chain, at] if chain and whole else []  # type: ignore[list-item]


def _seen_elsewhere(graph: fx.Graph, node: fx.Node, chain: list[fx.Node]) -> bool:
    """Whether a view that was made before, and is none of the chain, is read behind the writing."""
    position = {other: number for number, other in enumerate(graph.nodes)}
    written = memory(chain[-1])
    return any(
        other not in chain
        and position[other] < position[node]
        and any(position[user] > position[node] for user in other.users)
        and memory(other) is written
        for other in position
    )


def memory(node: fx.Node) -> fx.Node:
    """The tensor that a view is of, through other views."""
    while isinstance(node.target, torch._ops.OpOverload) and node.args and isinstance(node.args[0], fx.Node):
        returns = node.target._schema.returns
        if not returns or returns[0].alias_info is None or _casts(node):
            break
        node = node.args[0]
    return node


def _casts(node: fx.Node) -> bool:
    """`to` is a view where it has nothing to do."""
    return operator_name(node)[0] == "to" and node.meta["val"].dtype != node.args[0].meta["val"].dtype  # type: ignore[union-attr]


def _write(graph: fx.Graph, node: fx.Node, chain: list[fx.Node]) -> None:
    later = set(list(graph.nodes)[list(graph.nodes).index(node) + 1 :])
    with graph.inserting_before(node):
        value = _value(graph, node)
        node.replace_all_uses_with(value)
        for part, whole in pairwise(chain):
            part.replace_all_uses_with(value, delete_user_cb=later.__contains__)
            scatter = _SCATTERS[part.target]  # type: ignore[index]
            value = _made(graph, scatter, (whole, value, *part.args[1:]), part.kwargs, like=whole)
            value.meta["nn_module_stack"] = node.meta.get("nn_module_stack")
        chain[-1].replace_all_uses_with(value, delete_user_cb=later.__contains__)
    graph.erase_node(node)


def _value(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """What is written."""
    into = node.args[0]
    assert isinstance(into, fx.Node)
    if operator_name(node)[0] != "copy":
        _, name, overload = functional_name(node).split(".")
        return _made(graph, getattr(getattr(_aten, name), overload), node.args, node.kwargs, like=node)
    value, wanted = node.args[1], into.meta["val"]
    assert isinstance(value, fx.Node)
    if value.meta["val"].dtype != wanted.dtype:
        value = _made(graph, _aten.to.dtype, (value, wanted.dtype), {}, like=value)
        value.meta["val"] = value.meta["val"].to(wanted.dtype)
    if value.meta["val"].shape != wanted.shape:
        value = _made(graph, _aten.expand.default, (value, list(wanted.shape)), {}, like=into)
    return value


def _made(graph: fx.Graph, target: Any, args: Any, kwargs: Any, *, like: fx.Node) -> fx.Node:
    made = graph.call_function(target, tuple(args), dict(kwargs))
    made.meta = dict(like.meta)
    return made
