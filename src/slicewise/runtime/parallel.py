"""The one changed line of a training script: `net = slicewise.parallelize(model, plan)`."""

from pathlib import Path

import torch.distributed as dist
from torch import nn

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.errors import PlanError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.plans import Plan
from slicewise.runtime.sliced_module import SlicedModule


def parallelize(
    model: nn.Module, plan: Plan | str | Path, *, graph: LayerGraph | None = None, seed: int = 0
) -> SlicedModule:
    """`model` under `plan`, on the initialised process group, as many ranks as the plan has devices.

    `graph` is the captured model; it may be left out where the plan's model is one slicewise can load by name.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.load(Path(plan))
    if not dist.is_initialized():
        raise PlanError("no process group; start the script with torchrun and call init_process_group first")
    if dist.get_world_size() != chosen.devices:
        raise PlanError(
            f"the plan is for {chosen.devices} devices, this world has {dist.get_world_size()} ranks; "
            f"start {chosen.devices} ranks, or plan again with --devices {dist.get_world_size()}"
        )
    layers = chosen.sized(graph or load_graph(chosen.model, chosen.input_shape))
    mesh = Mesh(tuple(Axis(name, size, 0) for name, size in chosen.axes.items()))
    chosen.check(layers, mesh)
    _check_weights(model, layers)
    return SlicedModule(model, layers, chosen.slicings, mesh, seed=seed)


def _check_weights(model: nn.Module, graph: LayerGraph) -> None:
    held = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for weight in graph.weights:
        if held.get(weight.name) != weight.shape:
            has = f"has {held[weight.name]}" if weight.name in held else "has none of that name"
            raise PlanError(f"the plan's network has {weight.name} of shape {weight.shape}; this model {has}")
