"""The cost model that a request or a plan is priced by."""

from slicewise.cluster.cluster import Cluster
from slicewise.cost.model import CostModel
from slicewise.cost.registry import model_named, usual_model
from slicewise.cost.training import Training
from slicewise.errors import PlanError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan


def model_for(graph: LayerGraph, cluster: Cluster, training: Training, cost: str | None = None) -> CostModel:
    """`graph` with its batch norms as `cluster` trains them; by the cluster's usual model, if by no other."""
    cluster.device.flops(training.dtype)  # refuse a dtype that the device does not have
    priced_by = model_named(cost) if cost else usual_model(cluster)
    return priced_by(training.normalised(graph, cluster.devices), cluster, training)


def model_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> CostModel:
    """The cost model that a plan was made with, for costing its slicings again."""
    if plan.pipeline is not None:
        raise PlanError(
            "a pipeline plan slices no layer, so there are no slicings to explain; its stages are in the file"
        )
    return model_named(plan.cost_model)(plan.sized(graph), cluster, plan.training)
