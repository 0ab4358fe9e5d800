"""Every cost model has one interface and a name."""

from collections.abc import Mapping

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel
from slicewise.cost.optcnn import OptCnnModel
from slicewise.errors import UnknownName

MODELS: Mapping[str, type[CostModel]] = {model.name: model for model in (AnalyticModel, OptCnnModel)}


def model_named(name: str) -> type[CostModel]:
    if name not in MODELS:
        raise UnknownName("cost model", name, MODELS)
    return MODELS[name]
