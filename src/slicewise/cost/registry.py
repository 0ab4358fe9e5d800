"""Every cost model has one interface and a name."""

from collections.abc import Mapping

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.calibrated import CalibratedModel
from slicewise.cost.measured import MeasuredModel
from slicewise.cost.model import CostModel
from slicewise.cost.optcnn import OptCnnModel
from slicewise.errors import UnknownName

MODELS: Mapping[str, type[CostModel]] = {
    model.name: model for model in (AnalyticModel, CalibratedModel, MeasuredModel, OptCnnModel)
}


def model_named(name: str) -> type[CostModel]:
    if name not in MODELS:
        raise UnknownName("cost model", name, MODELS)
    return MODELS[name]


def usual_model(cluster: Cluster) -> type[CostModel]:
    """Where nobody asks for another: the one that makes the most of what was measured."""
    if cluster.times:
        return MeasuredModel
    return CalibratedModel if cluster.device.layers else AnalyticModel
