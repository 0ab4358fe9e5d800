"""A pipeline as a plan: one stage of the network per device."""

from collections.abc import Sequence
from dataclasses import replace

from slicewise.cluster.cluster import Cluster
from slicewise.cost.breakdown import Cost
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.registry import model_named, usual_model
from slicewise.cost.stage import StageCost
from slicewise.cost.training import PLAIN, Training
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning.describing import plan_of
from slicewise.plans.plan import Plan, Stages
from slicewise.plans.request import Request
from slicewise.search.pipeline import best_pipeline


def pipeline_plan(
    graph: LayerGraph,
    cluster: Cluster,
    *,
    batch: int,
    schedule: str | None = None,
    micro_batches: int | None = None,
    training: Training = PLAIN,
    cost: str | None = None,
) -> Plan:
    """One stage of the network per device, balanced; micro-batches and schedule as given, or as predicted to be best.

    >>> pipeline_plan(sw.load_graph("vgg16"), sw.load_cluster("p100-4x4"), batch=512).pipeline.schedule
    '1f1b'
    """
    cluster.device.flops(training.dtype)  # refuse a dtype that the device does not have
    priced_by = model_named(cost) if cost else usual_model(cluster)
    model = priced_by(graph.with_batch(batch), cluster, training)
    made = best_pipeline(model, schedule, micro_batches)
    stages = made.pipeline.stage_costs(made.positions)
    layers = model.graph.layers
    starts, stops = (0, *(cut + 1 for cut in made.positions)), (*(cut + 1 for cut in made.positions), len(layers))
    return plan_of(
        model,
        slicings={layer.name: (None,) * len(model.cluster.mesh.axes) for layer in layers},
        costs=_layer_costs(made.pipeline, stages, made.positions),
        predicted=made.predicted,
        request=Request(strategy="pipeline", training=training, cost=model.name, segments=micro_batches),
        pipeline=Stages(
            schedule=made.schedule,
            micro_batches=made.pipeline.micro_batches,
            stages=tuple(
                {
                    "first": layers[start].name,
                    "last": layers[stop - 1].name,
                    "layers": stop - start,
                    "forward_s": stage.forward_s,
                    "backward_s": stage.backward_s,
                    "transfer_s": stage.seconds - stage.forward_s - stage.backward_s,
                }
                for start, stop, stage in zip(starts, stops, stages, strict=True)
            ),
        ),
    )


def _layer_costs(
    pipeline: PipelineModel, stages: Sequence[StageCost], positions: Sequence[int]
) -> dict[str, dict[str, float | int]]:
    """Of a whole step; what goes over a cut is the layer's before it."""
    count = pipeline.micro_batches
    costs = {}
    for position, (layer, cost) in enumerate(zip(pipeline.model.graph, pipeline.layers, strict=True)):
        moved = Cost()
        if position in positions:
            number = positions.index(position)
            before, behind = stages[number], stages[number + 1]
            moved = Cost(
                transfer_s=count * (behind.output_s + (before.gradient_s or 0.0)),
                transfer_bytes=count * (before.sent_bytes + before.returned_bytes),
            )
        whole = replace(cost, forward_s=count * cost.forward_s, backward_s=count * cost.backward_s)
        if layer is pipeline.model.graph.inputs[0]:
            whole = replace(whole, forward_s=pipeline.step_s)
        costs[layer.name] = (whole + moved).to_dict()
    return costs
