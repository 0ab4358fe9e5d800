"""The plan of a strategy that needs no search: data, filter, spatial, owt, ... or pipeline."""

from slicewise.cluster.cluster import Cluster
from slicewise.cost.registry import model_named, usual_model
from slicewise.cost.training import PLAIN, Training
from slicewise.errors import RequestError, UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning.describing import describe
from slicewise.planning.modelling import model_for
from slicewise.planning.staged import pipeline_plan
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.search.baselines import BASELINES
from slicewise.strategy import LAYERWISE, PLANNED, STRATEGIES, Form


def check_strategy(name: str) -> None:
    if name not in (*PLANNED, LAYERWISE):
        raise UnknownName("strategy", name, [*PLANNED, LAYERWISE])


def baseline_plan(
    graph: LayerGraph,
    cluster: Cluster,
    strategy: str,
    *,
    batch: int,
    training: Training = PLAIN,
    cost: str | None = None,
    micro_batches: int | None = None,
) -> Plan:
    """`micro_batches` are a pipeline's.

    >>> baseline_plan(sw.load_graph("alexnet"), sw.load_cluster("p100-4x4"), "data", batch=512).devices
    16
    """
    check_strategy(strategy)
    cost = cost or usual_model(cluster).name
    if STRATEGIES[strategy].form is Form.STAGES:
        if not model_named(cost).pipelines:
            raise RequestError(f'`cost="{cost}"` has no price for a pipeline; use {usual_model(cluster).name}')
        return pipeline_plan(graph, cluster, batch=batch, micro_batches=micro_batches, training=training, cost=cost)
    if micro_batches is not None:
        raise RequestError(f'`segments` are a pipeline\'s micro-batches; `strategy="{strategy}"` has none')
    model = model_for(graph.with_batch(batch), cluster, training, cost)
    asked = Request(strategy=strategy, training=training, cost=cost)
    return describe(model, BASELINES[strategy](model), request=asked)
