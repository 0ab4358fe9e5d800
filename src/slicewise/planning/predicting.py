"""The predicted step of a plan as it is now."""

from pathlib import Path

from slicewise.cluster.cluster import Cluster
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.registry import model_named
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.stages import Cuts
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.simulate.pipeline import predicted_pipeline
from slicewise.simulate.predicting import predicted_step


def predict(plan: Plan | str | Path) -> Prediction:
    """The predicted step of any plan as it is now, edited or not: seconds by term, bytes and memory.

    >>> plan = sw.plan("alexnet", "p100-4x4", batch=512, strategy="data")
    >>> sw.predict(plan).iteration_s == plan.predicted.iteration_s
    True
    """
    plan = loaded(plan)
    graph, cluster = plan.network(), plan.hardware()
    plan.check(plan.sized(graph), cluster.mesh)
    return predicted_of(plan, graph, cluster)


def predicted_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> Prediction:
    """The predicted step of a plan as it is now, edited or not."""
    if plan.pipeline is None:
        return predicted_step(model_of(plan, graph, cluster), plan.slicings)
    sized = plan.sized(graph)
    positions = plan.pipeline.check(sized, plan.devices)
    model = model_named(plan.cost_model)(sized, cluster, plan.training)
    pipeline = PipelineModel(model, Cuts(sized), plan.pipeline.micro_batches)
    return predicted_pipeline(pipeline, positions, plan.pipeline.schedule)
