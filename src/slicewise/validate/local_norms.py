"""One device whose batch norms take the statistics of each rank's slice alone, as `--batchnorm local` has them."""

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import layouts
from slicewise.partition.parts import as_box, boxes
from slicewise.plans import Plan

_SIGNATURE = inspect.signature(F.batch_norm)


class LocalNorms(TorchFunctionMode):
    """Inside, the graph's batch norms, in its order, normalise each slice of the plan by itself."""

    def __init__(self, graph: LayerGraph, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self._left = [layer for layer in graph if Dim.N in layer.statistics]

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
        if not given.arguments["training"]:
            return func(*args, **(kwargs or {}))
        x: Tensor = given.arguments["input"]
        if not self._left or self._left[0].shape != tuple(x.shape):
            raise self._refusal(f"a batch norm of {tuple(x.shape)}")
        return self._sliced(self._left.pop(0), x, given.arguments)

    def _sliced(self, layer: Layer, x: Tensor, given: dict[str, Any]) -> Tensor:
        layout = layouts(layer, self._plan.slicings[layer.name]).output
        parts = {as_box(a, b) for a, b in zip(*boxes(layer.shape, layout, self._plan.mesh), strict=True)}
        y = torch.empty_like(x)
        for part in parts:
            own = tuple(slice(start, stop) for start, stop in part)
            weight, bias = (None if given[name] is None else given[name][own[1]] for name in ("weight", "bias"))
            y[own] = F.batch_norm(x[own], None, None, weight, bias, training=True, eps=given["eps"])
        return y

    def _refusal(self, where: str) -> PlanError:
        return PlanError(f"{where}: --check cannot follow the batch norms of this model; plan with --batchnorm exact")
