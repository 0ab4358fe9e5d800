"""What stands beside a plan without being a slicing of the same step: one device, a pipeline, DDP as it comes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.errors import SlicewiseError
from slicewise.graph.chunks import with_exact_statistics
from slicewise.graph.dims import Dim
from slicewise.partition.buckets import BUCKET_BYTES
from slicewise.planning.modelling import model_for
from slicewise.search.baselines import data
from slicewise.search.pipeline import best_pipeline
from slicewise.simulate.predicting import predicted_step
from slicewise.units import amount

ONE_DEVICE, PIPELINE, DDP = "one device", "pipeline", "DDP"
_MOST_STAGES = 16  # a stage per device; balancing and simulating more takes longer than people wait for a row


def references(model: CostModel, limit_bytes: float) -> dict[str, dict[str, Any]]:
    """By name, in the form of a plan's baselines: the terms, and whether it is possible.

    DDP is told where it is not the row `data`: its batch norms know the samples of their own rank alone, and its
    buckets have their own size.
    """
    rows = {}
    if model.cluster.devices > 1:
        rows[ONE_DEVICE] = told(lambda: _one_device(model), limit_bytes)
        if model.pipelines and model.cluster.devices <= _MOST_STAGES:
            rows[PIPELINE] = told(lambda: best_pipeline(model).predicted, limit_bytes)
        own_norms = model.training.batchnorm == "exact" and any(Dim.N in layer.statistics for layer in model.graph)
        if own_norms or model.training.bucket_bytes != BUCKET_BYTES:
            rows[DDP] = told(lambda: _ddp(model), limit_bytes)
    return rows


def _one_device(model: CostModel) -> Prediction:
    alone = model_for(
        with_exact_statistics(model.graph), model.cluster.with_devices(1), model.training, type(model).name
    )
    return predicted_step(alone, {layer.name: () for layer in alone.graph})


def _ddp(model: CostModel) -> Prediction:
    training = replace(model.training, batchnorm="local", bucket_bytes=BUCKET_BYTES)
    local = model_for(model.graph, model.cluster, training, type(model).name)
    return predicted_step(local, data(local))


def told(predict: Callable[[], Prediction], limit_bytes: float) -> dict[str, Any]:
    """A prediction with whether it is possible, and why not."""
    try:
        predicted = predict()
    except SlicewiseError as error:
        return {"feasible": False, "reason": str(error)}
    peak = predicted.peak_memory_bytes
    fits = peak <= limit_bytes
    reason = None if fits else f"needs {amount(peak, 'B')} per device, the limit is {amount(limit_bytes, 'B')}"
    return {**predicted, "feasible": fits, "reason": reason}
