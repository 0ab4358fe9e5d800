"""One device whose batch norms take statistics chunk by chunk, as `--batchnorm local` has them."""

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from slicewise.errors import PlanError
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph

_SIGNATURE = inspect.signature(F.batch_norm)


class LocalNorms(TorchFunctionMode):
    """Inside, the graph's batch norms, in its order, normalise each chunk by itself and remember the first."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        # those of weights are calls, too, but have no samples
        self._left = [layer for layer in graph if ".batch_norm." in layer.options.get("op", "")]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._left and error[0] is None:
            raise self._refusal(self._left[0].name)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.batch_norm:
            raise self._refusal("torch.batch_norm")
        if func is not F.batch_norm:
            return func(*args, **(kwargs or {}))
        given = _SIGNATURE.bind(*args, **(kwargs or {}))
        given.apply_defaults()
        x: Tensor = given.arguments["input"]
        if not self._left or self._left[0].shape != tuple(x.shape):
            raise self._refusal(f"a batch norm of {tuple(x.shape)}")
        layer = self._left.pop(0)
        if layer.chunk is None or not given.arguments["training"]:
            return func(*args, **(kwargs or {}))
        return _chunked(layer, given.arguments)

    def _refusal(self, where: str) -> PlanError:
        return PlanError(f"{where}: --check cannot follow the batch norms of this model; plan with --batchnorm exact")


def _chunked(layer: Layer, given: dict[str, Any]) -> Tensor:
    """`F.batch_norm` of each chunk."""
    first, *others = given["input"].split(layer.chunk)
    untracked = {**given, "running_mean": None, "running_var": None}
    return torch.cat(
        [F.batch_norm(**given | {"input": first}), *(F.batch_norm(**untracked | {"input": part}) for part in others)]
    )
