"""slicewise: how to slice each layer of a vision network, how long a step takes and why, and the run itself.

>>> import slicewise as sw
>>> plan = sw.plan("alexnet", "p100-4x4", batch=512)
>>> plan.devices, plan.certificate["optimal"]
(16, True)

Inside torchrun, where DistributedDataParallel(model) stood:

    net = sw.parallelize(model, plan)
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from slicewise.extras import require_torch as _require_torch
from slicewise.version import VERSION as __version__  # noqa: N811

if _TYPE_CHECKING:
    from slicewise.checkpoints.export import export_checkpoint
    from slicewise.checkpoints.load import load_checkpoint
    from slicewise.checkpoints.save import save_checkpoint
    from slicewise.cluster.cluster import Cluster, load_cluster
    from slicewise.cost.training import Training
    from slicewise.diagnosis.diagnosing import diagnose
    from slicewise.errors import SlicewiseError
    from slicewise.explaining.decisions import explain
    from slicewise.explaining.differences import compare
    from slicewise.explaining.what_if import what_if
    from slicewise.fitting.from_runs import calibrate_from
    from slicewise.graph.capture import capture
    from slicewise.graph.layer_graph import LayerGraph
    from slicewise.graph.sources import load_graph
    from slicewise.planning.alternatives import alternatives
    from slicewise.planning.asking import pareto, plan
    from slicewise.planning.predicting import predict
    from slicewise.plans.plan import Plan
    from slicewise.plans.request import Request
    from slicewise.running.calibrating import calibrate
    from slicewise.running.tracking import track
    from slicewise.running.validating import validate
    from slicewise.runtime.parallel import parallelize
    from slicewise.runtime.pipeline import pipeline
    from slicewise.runtime.sampling import data_loader
    from slicewise.strategies.projecting import oracle
    from slicewise.strategies.provisioning import provision

# Resolved on first use: planning never imports torch.
_HOMES = {
    "Cluster": "slicewise.cluster.cluster",
    "LayerGraph": "slicewise.graph.layer_graph",
    "Plan": "slicewise.plans.plan",
    "Request": "slicewise.plans.request",
    "SlicewiseError": "slicewise.errors",
    "Training": "slicewise.cost.training",
    "alternatives": "slicewise.planning.alternatives",
    "calibrate": "slicewise.running.calibrating",
    "calibrate_from": "slicewise.fitting.from_runs",
    "capture": "slicewise.graph.capture",
    "compare": "slicewise.explaining.differences",
    "data_loader": "slicewise.runtime.sampling",
    "diagnose": "slicewise.diagnosis.diagnosing",
    "explain": "slicewise.explaining.decisions",
    "export_checkpoint": "slicewise.checkpoints.export",
    "load_checkpoint": "slicewise.checkpoints.load",
    "load_cluster": "slicewise.cluster.cluster",
    "load_graph": "slicewise.graph.sources",
    "oracle": "slicewise.strategies.projecting",
    "parallelize": "slicewise.runtime.parallel",
    "pareto": "slicewise.planning.asking",
    "pipeline": "slicewise.runtime.pipeline",
    "plan": "slicewise.planning.asking",
    "predict": "slicewise.planning.predicting",
    "provision": "slicewise.strategies.provisioning",
    "save_checkpoint": "slicewise.checkpoints.save",
    "track": "slicewise.running.tracking",
    "validate": "slicewise.running.validating",
    "what_if": "slicewise.explaining.what_if",
}

_WITH_TORCH = (
    "capture",
    "data_loader",
    "export_checkpoint",
    "load_checkpoint",
    "parallelize",
    "pipeline",
    "save_checkpoint",
    "track",
)

__all__ = [
    "Cluster",
    "LayerGraph",
    "Plan",
    "Request",
    "SlicewiseError",
    "Training",
    "__version__",
    "alternatives",
    "calibrate",
    "calibrate_from",
    "capture",
    "compare",
    "data_loader",
    "diagnose",
    "explain",
    "export_checkpoint",
    "load_checkpoint",
    "load_cluster",
    "load_graph",
    "oracle",
    "parallelize",
    "pareto",
    "pipeline",
    "plan",
    "predict",
    "provision",
    "save_checkpoint",
    "track",
    "validate",
    "what_if",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        if name in _WITH_TORCH:
            _require_torch()
        return getattr(_import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'slicewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names; the folders are imported by their own."""
    return list(__all__)
