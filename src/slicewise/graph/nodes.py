"""What the nodes of a traced program say about the calls they stand for."""

from typing import Any

import torch
from torch import fx

_OF_SEVERAL = ("torch.nn.modules.activation.MultiheadAttention", "torch.nn.modules.transformer.")

# other names that torch has for an operator, with the same overloads and arguments
_ALIASES = {
    "absolute": "abs", "arctan": "atan", "arctan2": "atan2", "clip": "clamp", "concat": "cat", "concatenate": "cat",
    "divide": "div", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "special_expit": "sigmoid", "subtract": "sub", "true_divide": "div",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
}  # fmt: skip
_IN_PLACE = {"__iand__": "__and__", "__ior__": "__or__", "__ixor__": "__xor__"}  # but for those that end in _


def batch_references(value: Any, batch: int) -> Any:
    """Numbers that are the batch's doing, by reference: they change with the batch."""
    if isinstance(value, dict) and not {"input", "weight", "buffer"} & set(value):
        return {key: batch_references(item, batch) for key, item in value.items()}
    if isinstance(value, list):
        return [batch_references(item, batch) for item in value]
    if type(value) is int and value and value % batch == 0:
        return {"batch": value // batch}
    return value


def read_dtype(node: fx.Node) -> torch.dtype | None:
    """Of the first tensor that the operator reads."""
    return next((given.meta["val"].dtype for given in node.all_input_nodes if "val" in given.meta), None)


def operator_name(node: fx.Node) -> tuple[str, bool]:
    """('relu', True) for aten.relu_.default."""
    packet = str(node.target).split(".")[1]
    in_place = packet in _IN_PLACE or (packet.endswith("_") and not packet.endswith("__"))
    plain = _IN_PLACE.get(packet, packet.rstrip("_")) if in_place else packet
    return _ALIASES.get(plain, plain), in_place


def functional_name(node: fx.Node) -> str:
    namespace, _, overload = str(node.target).split(".")
    return f"{namespace}.{operator_name(node)[0]}.{overload}"


def module_path(node: fx.Node) -> str:
    """The module's own name where one torch module is one layer; the operator's under the module otherwise."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, module_type = stack[-1] if stack else ("", "")
    kind = str(module_type)
    if path and kind.startswith("torch.nn.modules.") and not kind.startswith(_OF_SEVERAL):
        return str(path)
    return f"{path}.{node.name}" if path else node.name
