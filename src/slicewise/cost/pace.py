"""What one measured step on one device says of a network's compute.

factor = (measured - WU) / S(FW + BW)          of the batch that was measured; all layers take so many times as long
"""

from dataclasses import replace
from math import isfinite

from slicewise.cluster.cluster import Cluster, Measured
from slicewise.cost.registry import usual_model
from slicewise.cost.training import Training
from slicewise.errors import RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.units import seconds as spelled

Step = tuple[int, float]  # samples, seconds
MOST = 100.0  # times as fast or slow as predicted: beyond, a unit is wrong


def paced(cluster: Cluster, graph: LayerGraph, training: Training, measured: Step | None) -> Cluster:
    """`cluster` with the compute of `graph` as measured; as it is where nothing was."""
    if measured is None:
        return cluster
    batch, step_s = _checked(measured)
    one = replace(cluster, measured=None).with_devices(1)
    model = usual_model(one)(training.normalised(graph.with_batch(batch), 1), one, training)
    compute_s, update_s = sum(model.whole_seconds()), model.all_updates_s()
    factor = (step_s - update_s) / compute_s if compute_s else 1.0
    if not 1 / MOST <= factor <= MOST:
        raise RequestError(
            f"measured {batch}={spelled(step_s)}: one {cluster.device.name} is predicted to take "
            f"{spelled(compute_s + update_s)} for {batch} samples of {graph.name}; give one within {MOST:g} times that"
        )
    trained = {"dtype": training.dtype, "optimizer": training.optimizer}
    return replace(cluster, measured=Measured(model=graph.name, batch=batch, seconds=step_s, factor=factor, **trained))


def _checked(measured: Step) -> Step:
    try:
        batch, step_s = measured
        usable = int(batch) == batch and batch >= 1 and isfinite(step_s) and step_s > 0
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise RequestError(f"measured must be samples and seconds of a step, as (64, 0.1996) (got {measured!r})")
    return int(batch), float(step_s)
