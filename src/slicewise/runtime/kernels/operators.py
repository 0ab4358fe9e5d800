"""Operators and constants of torch, by the names that a graph has for them.

A graph may have been read from a file. So its names are looked up, never evaluated, and only among what computes
tensors: torch's own other libraries send messages, draw up profiles or read memory unchecked.
"""

import torch
from torch._ops import OpOverload

from slicewise.errors import GraphError
from slicewise.graph.layer import Layer

# Operators of a namespace that is not here are of a library that the model itself has imported.
# fmt: off
TORCH_LIBRARIES = frozenset([
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_inductor_test", "_native", "_quantized", "_test",
    "c10d", "c10d_functional", "debug_mode_ops", "debugprims", "export", "flex_lib", "fsdp", "inductor",
    "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "onnx", "onnx_symbolic", "pippy", "prim",
    "prims", "profiler", "quantization", "quantized", "rngprims", "sparse", "static_runtime", "streams", "symm_mem",
])
# fmt: on


def operator(layer: Layer, *, in_place: bool = False, overload: str = "") -> OpOverload:
    """What the layer calls: `aten.relu.default`; its in-place form; another overload of it."""
    name = str(layer.options["op"])
    namespace, _, rest = name.partition(".")
    called, _, captured = rest.partition(".")
    found = None
    if namespace.isidentifier() and namespace not in TORCH_LIBRARIES:
        packet = getattr(torch.ops, namespace)
        chosen = overload or captured
        found = getattr(getattr(packet, f"{called}_" if in_place else called, None), chosen, None)
    if not isinstance(found, OpOverload):
        raise GraphError(
            f"{layer.name}: unknown operator {name!r}; a graph calls those of aten, or of a model's own library"
        )
    if any(argument.name == "filename" for argument in found._schema.arguments):
        raise GraphError(f"{layer.name}: {name!r} opens files, which no layer may; capture the model again")
    return found


def constant(name: str) -> torch.dtype | torch.layout | torch.memory_format:
    """`torch.float32`, `torch.strided` or `torch.channels_last`."""
    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
        raise GraphError(f"unknown constant {name!r}; a graph names dtypes, layouts and memory formats of torch")
    return found
