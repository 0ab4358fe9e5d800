"""Every cost model has one interface and a name."""

from collections.abc import Callable, Mapping

from slicewise.cluster.cluster import Cluster
from slicewise.cost.model import CostModel
from slicewise.cost.optcnn import OptCnnModel
from slicewise.cost.training import Training
from slicewise.errors import UnknownName
from slicewise.graph.layer_graph import LayerGraph

MODELS: Mapping[str, Callable[[LayerGraph, Cluster, Training], CostModel]] = {
    "analytic": CostModel,
    "optcnn": OptCnnModel,
}


def model_named(name: str) -> Callable[[LayerGraph, Cluster, Training], CostModel]:
    if name not in MODELS:
        raise UnknownName("cost model", name, MODELS)
    return MODELS[name]
