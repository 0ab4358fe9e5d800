"""The one changed line of a training script: `net = slicewise.parallelize(model, plan)`."""

import copy
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from slicewise.errors import GraphError, PlanError
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.plans import Plan
from slicewise.runtime.initial import Initialize
from slicewise.runtime.sliced_module import Shapes, SlicedModule


def parallelize(
    model: nn.Module,
    plan: Plan | str | Path,
    *,
    graph: LayerGraph | None = None,
    initialize: Initialize | None = None,
    seed: int = 0,
) -> SlicedModule:
    """`model` under `plan`, on the initialised process group, as many ranks as the plan has devices.

    `graph` is the captured model; it may be left out where the plan's model is one slicewise can load by name.
    A model on the meta device is made part by part on each rank: by `initialize(module)`, called for every module that
    has parameters or buffers of its own, or else by the module's `reset_parameters`.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.load(Path(plan))
    if chosen.pipeline is not None:
        raise PlanError("this is a pipeline's plan; use slicewise.pipeline(model, plan, loss=...) and its step()")
    layers = matched(model, chosen, graph)
    return SlicedModule(
        model,
        layers,
        chosen.slicings,
        chosen.mesh,
        seed=seed,
        recompute=chosen.training.recompute,
        initialize=initialize,
        resized=_resized(model, layers, chosen),
    )


def matched(model: nn.Module, plan: Plan, graph: LayerGraph | None) -> LayerGraph:
    """The plan's network, sized for it; refused before any work where world, network or weights are not the plan's."""
    if not dist.is_initialized():
        raise PlanError("no process group; start the script with torchrun and call init_process_group first")
    if dist.get_world_size() != plan.devices:
        raise PlanError(
            f"the plan is for {plan.devices} devices, this world has {dist.get_world_size()} ranks; "
            f"start {plan.devices} ranks, or plan again with --devices {dist.get_world_size()}"
        )
    layers = plan.sized(graph or load_graph(plan.model, plan.input_shape))
    plan.check(layers, plan.mesh)
    held = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for weight in layers.weights:
        if held.get(weight.name) != weight.shape:
            has = f"has {held[weight.name]}" if weight.name in held else "has none of that name"
            raise PlanError(f"the plan's network has {weight.name} of shape {weight.shape}; this model {has}")
    return layers


def _resized(model: nn.Module, graph: LayerGraph, plan: Plan) -> Callable[[Shapes], LayerGraph]:
    """Captures the model again, for samples of other shapes; what is kept for that has no memory behind it."""
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.to("meta")
    bare = copy.deepcopy(model, memo)

    def capture_again(shapes: Shapes) -> LayerGraph:
        samples = {
            layer.name: torch.empty(shape, device="meta") for layer, shape in zip(graph.inputs, shapes, strict=True)
        }
        try:
            again = capture(bare, tuple(samples.values()) if len(samples) == 1 else samples, name=graph.name)
        except GraphError as error:
            raise PlanError(f"the network does not take samples of shape {[s[1:] for s in shapes]}: {error}") from error
        if [layer.name for layer in again] != [layer.name for layer in graph]:
            raise PlanError(
                f"for samples of shape {[s[1:] for s in shapes]} the network has other layers; plan for them"
            )
        return plan.sized(again)

    return capture_again
