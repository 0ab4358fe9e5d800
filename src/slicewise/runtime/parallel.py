"""The one changed line of a training script: `net = slicewise.parallelize(model, plan)`."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from slicewise.environment import REALTIME
from slicewise.errors import PlanError
from slicewise.graph.alignment import renamed
from slicewise.graph.capture import OpaqueLayerWarning, capture, capture_all_training
from slicewise.graph.comparison import difference
from slicewise.graph.fingerprint import fingerprint
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.following import followed
from slicewise.plans.plan import Plan
from slicewise.runtime.agreement import described, together
from slicewise.runtime.blueprint import samples
from slicewise.runtime.compiling import uncompiled
from slicewise.runtime.devices import torch_dtype
from slicewise.runtime.hosts import check_hosts
from slicewise.runtime.initial import Initialize
from slicewise.runtime.priority import messages_first
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.runtime.watchdog import watch


class DtypeWarning(UserWarning):
    """A model whose weights are of another dtype than the plan's: it runs, but not as predicted."""


def parallelize(
    model: nn.Module,
    plan: Plan | str | Path,
    *,
    graph: LayerGraph | None = None,
    initialize: Initialize | None = None,
    seed: int = 0,
    stall_timeout: float = 60.0,
) -> SlicedModule:
    """`model` under `plan`, on the initialised process group, as many ranks as the plan has devices.

    The model that is passed is what runs; where its layers are not the plan's, a PlanError says which one is another.
    `graph` is the captured model, where the plan does not carry it.
    A model on the meta device is made part by part on each rank: by `initialize(module)`, called for every module that
    has parameters or buffers of its own, or else by the module's `reset_parameters`.
    Where no rank has moved for `stall_timeout` seconds (0: never) and some wait, a StallWarning says who was last seen
    where.
    """
    chosen = loaded(plan, pipeline=False)
    model = uncompiled(model)
    own = agreed(model, chosen, graph, seed, {"initialize": "given" if initialize else "not given"})
    watch(stall_timeout)
    if os.environ.get(REALTIME) == "1":
        messages_first()
    return sliced(model, own.plan, own.graph, initialize=initialize, seed=seed, all_training=own.all_training)


def loaded(plan: Plan | str | Path, *, pipeline: bool) -> Plan:
    """The plan, or an error on every rank if one cannot read it."""
    if not dist.is_initialized():
        raise PlanError("no process group; start the script with torchrun and call init_process_group first")

    def read() -> Plan:
        if not isinstance(plan, (Plan, str, Path)):
            raise PlanError(f"the plan must be a Plan, or the path of a plan's file (got a {type(plan).__name__})")
        chosen = plan if isinstance(plan, Plan) else Plan.load(Path(plan))
        if chosen.pipeline is not None and not pipeline:
            raise PlanError("this is a pipeline's plan; use slicewise.pipeline(model, plan, loss=...) and its step()")
        if chosen.pipeline is None and pipeline:
            raise PlanError("this plan slices layers and has no pipeline; use slicewise.parallelize(model, plan)")
        return chosen

    return together(read, lambda chosen: {})


def sliced(
    model: nn.Module,
    plan: Plan,
    graph: LayerGraph,
    *,
    initialize: Initialize | None = None,
    seed: int = 0,
    all_training: bool | None = None,
) -> SlicedModule:
    """`graph` under the plan, with the weights of `model`, whose network it is."""
    return SlicedModule(
        model,
        plan.sized(graph),
        plan.slicings,
        plan.mesh,
        seed=seed,
        recompute=plan.training.recompute,
        bucket_items=plan.training.bucket_items,
        initialize=initialize,
        adapt=plan.sized,
        all_training=all_training,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The network of the model that was passed, and the plan with a slicing for each of its layers."""

    graph: LayerGraph
    plan: Plan
    all_training: bool  # captured with every module in training mode; otherwise as they are


def agreed(
    model: nn.Module, plan: Plan, graph: LayerGraph | None, seed: int, given: Mapping[str, str] | None = None
) -> Own:
    """The model's network, which is the plan's, on every rank; otherwise every rank raises, before any work.

    `given`: what else must be the same.
    """
    dtypes = {str(parameter.dtype) for parameter in model.parameters()}
    devices = {parameter.device.type for parameter in model.parameters()}
    settings = {"the seed": seed, "recompute": plan.training.recompute, "the weights' dtype": sorted(dtypes)}
    settings |= {"the weights' device": sorted(devices), **(given or {})}
    settings |= {"batchnorm": plan.training.batchnorm, "the bucket size": plan.training.bucket_bytes}
    settings |= {"the rings": plan.training.rings}
    if plan.pipeline is not None:
        settings |= {"the schedule": plan.pipeline.schedule, "the micro-batches": plan.pipeline.micro_batches}
        settings |= {"the stages": plan.pipeline.ends, "the dtype between stages": plan.training.dtype}

    def parts(own: Own) -> dict[str, str]:
        return described(plan.sized(own.graph), own.plan.slicings, plan.axes, settings)

    own = together(lambda: matched(model, plan, graph), parts)
    check_hosts(plan.machine)
    return own


def matched(model: nn.Module, plan: Plan, graph: LayerGraph | None) -> Own:
    """The model's network; refused where world, layers or weights are not the plan's."""
    if dist.get_world_size() != plan.devices:
        raise PlanError(
            f"the plan is for {plan.devices} devices, this world has {dist.get_world_size()} ranks; "
            f"start {plan.devices} ranks, or plan again with `devices={dist.get_world_size()}`"
        )
    _check_dtype(model, plan)
    planned = graph or plan.graph
    found, all_training = _captured(model, plan, planned)
    layers = plan.sized(found)
    fitted = plan
    # a model of another dtype may lack the plan's casts; a layer that neither network has is no layer
    if planned is not None and set(plan.slicings) <= {*plan.sized(planned).index, *layers.index}:
        fitted = replace(plan, slicings=followed(plan.slicings, layers, plan.mesh))
    fitted.check(layers, plan.mesh)
    if found.returns is not None and found.returns.held is not None:
        raise PlanError(
            f"forward() returns {found.returns.held} beside what it computes; a sliced network returns only that"
        )
    return Own(graph=found, plan=fitted, all_training=all_training)


def _captured(model: nn.Module, plan: Plan, planned: LayerGraph | None) -> tuple[LayerGraph, bool]:
    """The model's network, and whether with every module in training mode instead of as they are.

    Captured, unless its fingerprint says that it is what was captured for the plan.
    """
    if planned is None:  # a plan of an earlier release: the names of its layers are what can be compared
        first = next(model.parameters())
        sample = torch.empty((), dtype=first.dtype, device=first.device).expand(2, *(plan.input_shape or ()))
        return capture(model, sample, name=plan.model), not model.training
    given = samples(model, planned)
    tensors = list(given.values()) if isinstance(given, dict) else list(given)
    kinds = [(tuple(x.shape[1:]), x.dtype) for x in tensors]
    known = planned.fingerprint is not None and planned.returns is not None
    if known and model.training and fingerprint(model, kinds) == planned.fingerprint:
        return planned, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)  # said when the plan was made
        found = renamed(capture(model, given, name=planned.name), planned)
        differs = difference(planned, found)
        if differs is None:
            return found, not model.training
        # the plan was made with other modules at rest
        found = renamed(capture_all_training(model, given, name=planned.name), planned)
    if difference(planned, found) is None:
        return found, True
    raise PlanError(f"the plan is not for this model. {differs}; plan again for the model that is passed")


def _check_dtype(model: nn.Module, plan: Plan) -> None:
    allowed = (torch.float32, torch_dtype(plan.training.dtype))
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and parameter.dtype not in allowed and dist.get_rank() == 0:
            warnings.warn(
                f"{name} is {parameter.dtype}, the plan is for {plan.training.dtype}: the model runs as it is, but its "
                "times, bytes and memory are not the predicted ones",
                DtypeWarning,
                stacklevel=4,
            )
            return
