"""slicewise: how to slice each layer of a CNN across devices, how long a step takes and why, and the run itself.

>>> import slicewise as sw
>>> graph = sw.load_graph("alexnet")
>>> plan = sw.plan(graph, "p100-4x4", batch=512)
>>> net = sw.parallelize(model, plan)      # inside torchrun, where DistributedDataParallel(model) stood
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slicewise import version
from slicewise.extras import require_torch

if TYPE_CHECKING:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.cost.training import Training
    from slicewise.errors import SlicewiseError
    from slicewise.explaining.decisions import explain
    from slicewise.explaining.differences import compare
    from slicewise.explaining.what_if import what_if
    from slicewise.graph.capture import capture
    from slicewise.graph.layer_graph import LayerGraph
    from slicewise.graph.sources import load_graph
    from slicewise.planning import plan
    from slicewise.plans.plan import Plan
    from slicewise.runtime.parallel import parallelize
    from slicewise.runtime.pipeline import pipeline
    from slicewise.runtime.sampling import data_loader
    from slicewise.strategies.projecting import oracle

__version__ = version.VERSION

# Resolved on first use: planning never imports torch.
_HOMES = {
    "LayerGraph": "slicewise.graph.layer_graph",
    "Plan": "slicewise.plans.plan",
    "SlicewiseError": "slicewise.errors",
    "Training": "slicewise.cost.training",
    "capture": "slicewise.graph.capture",
    "compare": "slicewise.explaining.differences",
    "data_loader": "slicewise.runtime.sampling",
    "explain": "slicewise.explaining.decisions",
    "load_cluster": "slicewise.cluster.cluster",
    "load_graph": "slicewise.graph.sources",
    "oracle": "slicewise.strategies.projecting",
    "parallelize": "slicewise.runtime.parallel",
    "pipeline": "slicewise.runtime.pipeline",
    "plan": "slicewise.planning",
    "what_if": "slicewise.explaining.what_if",
}

_WITH_TORCH = ("capture", "data_loader", "parallelize", "pipeline")

__all__ = [
    "LayerGraph",
    "Plan",
    "SlicewiseError",
    "Training",
    "__version__",
    "capture",
    "compare",
    "data_loader",
    "explain",
    "load_cluster",
    "load_graph",
    "oracle",
    "parallelize",
    "pipeline",
    "plan",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        if name in _WITH_TORCH:
            require_torch()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'slicewise' has no attribute {name!r}")
