"""Tensors of no items, as networks without register tokens join them to the others: left out."""

import torch
from torch import fx


def leave_out_empties(graph: fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        tensors = [tensor for tensor in node.args[0] if tensor.meta["val"].numel()]
        if tensors and len(tensors) < len(node.args[0]):
            node.args = (tensors, *node.args[1:])
