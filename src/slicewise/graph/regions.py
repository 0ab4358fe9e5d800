"""Parts of forward() under `no_grad` or a switched-off `autocast`: their operators, in the program itself.

torch.export keeps such a part as a program of its own. Without gradients it computes the same, and what it returns is
detached. Autocast that is off leaves operators as they are.
"""

from typing import Any

import torch
from torch import fx

_GRADIENTS, _AUTOCAST = "wrap_with_set_grad_enabled", "wrap_with_autocast"


def inline_regions(module: fx.GraphModule) -> None:
    """Every such part, those inside of parts too; autocast that is on stays, and is refused later."""
    while regions := [node for node in module.graph.nodes if _inlined(node)]:
        for region in regions:
            _inline(module, region)


def _inlined(node: fx.Node) -> bool:
    name = str(node.target) if node.op == "call_function" else ""
    return name == _GRADIENTS or (name == _AUTOCAST and not _enabled(node))


def _enabled(region: fx.Node) -> bool:
    return bool(region.args[2 if str(region.target) == _AUTOCAST else 0])


def _inline(module: fx.GraphModule, region: fx.Node) -> None:
    place = next(place for place, given in enumerate(region.args) if _is_part(given))
    part = getattr(module, str(region.args[place].target))  # type: ignore[union-attr]
    detached = str(region.target) == _GRADIENTS and not _enabled(region)
    given = iter(region.args[place + 1 :])
    copies: dict[fx.Node, Any] = {}
    results: Any = ()
    with module.graph.inserting_before(region):
        for node in part.graph.nodes:
            if node.op == "placeholder":
                copies[node] = next(given)
            elif node.op == "get_attr":  # a part inside of this one
                name = f"{region.name}_{node.target}".replace(".", "_")
                setattr(module, name, getattr(part, str(node.target)))
                copies[node] = module.graph.get_attr(name)
            elif node.op == "output":
                results = node.args[0]
            else:
                copies[node] = module.graph.node_copy(node, lambda inner: copies[inner])
        found = [copies.get(result, result) for result in results]
        if detached:
            found = [_detached(module.graph, result) for result in found]
    for item in list(region.users):
        item.replace_all_uses_with(found[item.args[1]])  # type: ignore[index]
        module.graph.erase_node(item)
    module.graph.erase_node(region)


def _is_part(given: Any) -> bool:
    return isinstance(given, fx.Node) and given.op == "get_attr"


def _detached(graph: fx.Graph, result: Any) -> Any:
    value = result.meta.get("val") if isinstance(result, fx.Node) else None
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return result
    detached = graph.call_function(torch.ops.aten.detach.default, (result,))
    detached.meta = dict(result.meta)
    return detached
