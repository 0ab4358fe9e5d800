"""The predicted step of slicings, and of a plan as it is now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.margins import range_of
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.registry import model_named
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.stages import Cuts
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.simulate.pipeline import predicted_pipeline
from slicewise.simulate.step import simulate_step


def predict(plan: Plan | str | Path) -> dict[str, Any]:
    """The predicted step of any plan as it is now, edited or not: seconds by term, bytes and memory.

    >>> plan = sw.plan("alexnet", "p100-4x4", batch=512, strategy="data")
    >>> sw.predict(plan)["iteration_s"] == plan.predicted["iteration_s"]
    True
    """
    plan = loaded(plan)
    graph, cluster = plan.network(), plan.hardware()
    plan.check(plan.sized(graph), cluster.mesh)
    return predicted_of(plan, graph, cluster)


def predicted_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> dict[str, Any]:
    """The predicted step of a plan as it is now, edited or not."""
    if plan.pipeline is None:
        return predicted(model_of(plan, graph, cluster), plan.slicings)
    sized = plan.sized(graph)
    positions = plan.pipeline.check(sized, plan.devices)
    model = model_named(plan.cost_model)(sized, cluster, plan.training)
    pipeline = PipelineModel(model, Cuts(sized), plan.pipeline.micro_batches)
    return predicted_pipeline(pipeline, positions, plan.pipeline.schedule)


def predicted(model: CostModel, slicings: Mapping[str, Slicing]) -> dict[str, Any]:
    """The predicted step, under the names of the JSON."""
    total = sum(model.plan_costs(slicings).values(), Cost())
    timeline = simulate_step(model, slicings)
    # the paper's model knows no overlap
    simulated_s = timeline.seconds if model.name == "analytic" else total.total_s
    return {
        "iteration_s": simulated_s,
        **range_of(model.cluster, simulated_s),
        "additive_s": total.total_s,
        "simulated_s": simulated_s,
        "compute_s": total.compute_s,
        "transfer_s": total.transfer_s,
        "halo_s": total.halo_s,
        "reduce_s": total.reduce_s,
        "sync_s": total.sync_s,
        "exposed_sync_s": timeline.exposed_sync_s if model.name == "analytic" else total.sync_s,
        "update_s": total.update_s,
        "samples_per_s": model.graph.batch / simulated_s,
        "bytes_moved": total.bytes_moved,
        "peak_memory_bytes": total.peak_memory_bytes,
        "origin": model.cluster.origin,
    }
