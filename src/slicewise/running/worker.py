"""What each rank of `slicewise run` does."""

import statistics
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from slicewise.checkpoints.state import random_state, set_random_state
from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.tiers import bytes_by_tier, pipeline_bytes_by_tier, tier_names, tier_of_ranks
from slicewise.equality.numerics import check_numerics
from slicewise.errors import RequestError
from slicewise.graph.capture import Sample, capture
from slicewise.graph.factories import tensors_of
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import build_model
from slicewise.partition.stages import Cuts
from slicewise.planning.predicting import predicted_of
from slicewise.plans.plan import Plan
from slicewise.running.contenders import Contender, opponent, planned_contender
from slicewise.running.keeping import Keeper
from slicewise.running.measure import (
    alternate,
    by_layer,
    count_step,
    paired_ratio,
    peak_memory,
    slowest,
    summary,
    whole_steps,
)
from slicewise.running.reference import drift
from slicewise.running.tracing import gather_events
from slicewise.runtime.batches import Batch, Feed
from slicewise.runtime.devices import torch_dtype
from slicewise.runtime.priority import messages_first
from slicewise.runtime.whereabouts import adding_up, mark, recording
from slicewise.timelines.chrome import write_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    plan: Plan
    iterations: int = 10
    warm_up: int = 2
    check: bool = False
    compare: str | Plan | None = None  # ddp, fsdp, or another plan
    trace: Path | None = None
    data: str | None = None  # module:factory
    seed: int = 0
    folder: Path | None = None  # where a model's file may stand beside where the command was given
    checkpoint: Path | None = None  # the folder of checkpoints
    checkpoint_every: int | None = None
    resume: bool = False


def run_rank(request: RunRequest, device: torch.device) -> dict[str, Any]:
    """Check, measure, count; every rank returns the same numbers."""
    plan = request.plan
    mark("build")
    torch.manual_seed(request.seed)
    model, sample = build_model(plan.model, plan.input_shape, request.folder)
    _check_dtype(sample, plan)
    graph = plan.graph or capture(model, sample, name=plan.model)
    model = model.to(device)
    result: dict[str, Any] = {
        "model": plan.model,
        "devices": plan.devices,
        "batch": plan.batch,
        "dtype": plan.training.dtype,
        "optimizer": plan.training.optimizer,
    }
    if request.check:
        mark("check")
        result["check"] = check_numerics(model, graph, plan, request.seed).to_dict()
    feed = _feed(request, graph.with_batch(plan.batch), device)
    if not any(isinstance(it, Plan) and it.pipeline for it in (plan, request.compare)):
        messages_first()
    contenders = [planned_contender(model, graph, plan, feed.loss)]
    if request.compare:
        contenders.append(opponent(request.compare, model, graph, plan, feed.loss))
    del model
    sliced = contenders[0]
    keeper, first = _keeper(request, sliced), 0
    if keeper and request.resume:
        first = keeper.resumed()
    if first:
        _draw_again(feed, request.warm_up + first)
    cluster = _cluster(plan)
    before = drift(cluster)
    with adding_up() as spent:
        measured = alternate(
            contenders,
            feed.batches,
            request.iterations,
            0 if first else request.warm_up,
            layers=request.trace is not None,
            first=first,
            after=keeper.after if keeper else lambda steps: None,
        )
    after = drift(cluster)
    result |= summary(sliced, measured.steps[sliced.name], measured.data_s)
    result["drift"] = statistics.fmean((before, after)) if before and after else None
    result["first_step"] = first
    if result["first_nan_step"] is not None:
        result["first_nan_step"] += first
    if recording() and not request.compare:
        result["layers_s"] = by_layer(spent, request.iterations - first + (0 if first else request.warm_up))
    if keeper:
        result["checkpoints"] = keeper.to_dict()
    if request.data:
        result["data_s"] = statistics.median(slowest(measured.data_s))
    if request.trace:
        events = gather_events(measured.steps[sliced.name], measured.data if request.data else [])
        if dist.get_rank() == 0:
            write_trace(request.trace, events, f"{plan.model}, {plan.devices} ranks, batch {plan.batch}")
    names = tier_names(cluster) if cluster else tuple(name.rstrip("0123456789") for name in plan.axes)
    tier_of = partial(tier_of_ranks, plan.mesh, names)
    batch = next(feed.batches)
    result |= count_step(sliced, batch, tier_of)
    result["bytes_by_tier"] = {name: result["bytes_by_tier"].get(name, 0) for name in dict.fromkeys(names)}
    result["peak_memory_bytes"] = peak_memory(sliced, batch)
    result["predicted"] = _predicted(plan, graph, cluster) if cluster else {}
    for other in contenders[1:]:
        result[other.name] = {
            **whole_steps(other, measured.steps[other.name]),
            **count_step(other, batch, tier_of),
            "speedup": paired_ratio(measured.steps[other.name], measured.steps[sliced.name]),
        }
    return result


def _keeper(request: RunRequest, contender: Contender) -> Keeper | None:
    if request.checkpoint is None:
        return None
    return Keeper(
        folder=request.checkpoint,
        every=request.checkpoint_every,
        iterations=request.iterations,
        contender=contender,
    )


def _draw_again(feed: Feed, batches: int) -> None:
    """The batches of steps that are done; the random numbers of the checkpoint stay."""
    before = random_state()
    for _ in range(batches):
        next(feed.batches)
    set_random_state(before)


def _check_dtype(sample: Sample, plan: Plan) -> None:
    """Weights are fp32: samples that are wider or narrower are for a model that is."""
    for tensor in tensors_of(sample):
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise RequestError(f"{plan.model} takes {dtype} samples, `run` trains on float32; use parallelize")


def _feed(request: RunRequest, graph: LayerGraph, device: torch.device) -> Feed:
    plan = request.plan
    local_samples = graph.batch % plan.devices == 0 and plan.pipeline is None
    # under autocast the first layer would narrow its input anyway: let the network move it narrow
    dtype = torch_dtype(plan.training.dtype) if plan.pipeline is None else torch.float32
    if request.data:
        return Feed.of_factory(request.data, graph, device, dtype, local_samples)
    return Feed.synthetic(Batch.synthetic(graph, torch.float32, device, request.seed).fed(local_samples).to(dtype))


def _cluster(plan: Plan) -> Cluster | None:
    """None where a plan of an earlier release names one that is gone."""
    try:
        return plan.hardware()
    except RequestError:
        return None


def _predicted(plan: Plan, graph: LayerGraph, cluster: Cluster) -> dict[str, Any]:
    """For the plan as it is now, edited or not; bytes are those of our own collectives, whatever model planned."""
    ours = AnalyticModel(plan.sized(graph), cluster, plan.training)
    if plan.pipeline is None:
        sent = bytes_by_tier(ours, plan.slicings)
    else:
        positions = plan.pipeline.check(ours.graph, plan.devices)
        sent = pipeline_bytes_by_tier(PipelineModel(ours, Cuts(ours.graph), plan.pipeline.micro_batches), positions)
    ours_sent = replace(predicted_of(plan, graph, cluster), bytes_moved=sum(sent.values()), sent_bytes={})
    return {**ours_sent.to_dict(), "bytes_by_tier": sent}
