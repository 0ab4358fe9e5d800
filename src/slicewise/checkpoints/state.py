"""Everything that a training goes on from, as one flat table: what torch's checkpoints hold, by our names.

net/conv1.weight                    weights and buffers, as `state_dict()` has them: DTensors
optimizer/conv1.weight/exp_avg      what the optimizer keeps for a weight, laid out as the weight is
groups                              the optimizer's groups: learning rates and the like
extra/ema, extra/ema/['conv1']      what the user gives beside: its structure, and its tensors
network                             seed and passes of the network: its dropout masks follow from them
random/0                            rank 0's random numbers: of torch, its devices, NumPy and Python

Values are tensors, or bytes: pickles of anything else.
"""

import pickle
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map_with_path

from slicewise.errors import CheckpointError
from slicewise.runtime.pipeline import Pipeline

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor stands in a structure."""

    place: str


def module_of(net: Any) -> nn.Module:
    """The module with the model's own names: inside of DistributedDataParallel, `torch.compile` or a pipeline."""
    if isinstance(net, Pipeline | nn.parallel.DistributedDataParallel):
        return module_of(net.module)
    return net._orig_mod if isinstance(net, torch._dynamo.OptimizedModule) else net


def table_of(net: Any, optimizer: torch.optim.Optimizer | None, extra: Mapping[str, Any], rank: int) -> Table:
    """What is saved; tensors are the live ones. To be called on every rank."""
    module = module_of(net)
    table: Table = {f"net/{name}": _value(value) for name, value in module.state_dict().items()}
    if optimizer is not None:
        for name, slots in optimizer_state(module, optimizer).items():
            table |= {f"optimizer/{name}/{slot}": _value(value) for slot, value in slots.items()}
        table["groups"] = pickle.dumps(groups(optimizer))
    for name, given in extra.items():
        structure, tensors = taken_apart(given.state_dict() if has_state(given) else given)
        table[f"extra/{name}"] = pickle.dumps(structure)
        table |= {f"extra/{name}/{place}": tensor for place, tensor in tensors.items()}
    table["network"] = pickle.dumps(getattr(module, "randomness", None))
    table[f"random/{rank}"] = pickle.dumps(random_state())
    return table


def copied(table: Table) -> Table:
    """On the host, so that training may go on while it is written."""
    return {name: _copy(value) if isinstance(value, Tensor) else value for name, value in table.items()}


def _copy(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, DTensor):
        return tensor.detach().to("cpu", copy=True)
    local = tensor._local_tensor.detach().to("cpu", copy=True)
    shape, stride = tensor.shape, tensor.stride()
    return DTensor.from_local(local, tensor.device_mesh, tensor.placements, run_check=False, shape=shape, stride=stride)


def _value(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else pickle.dumps(value)


def has_state(given: Any) -> bool:
    """Schedulers, scalers, loaders, modules, averages of modules."""
    return callable(getattr(given, "state_dict", None)) and callable(getattr(given, "load_state_dict", None))


def taken_apart(given: Any) -> tuple[Any, dict[str, Tensor]]:
    """The structure with slots where tensors were, and these by their places."""
    leaves, _ = tree_flatten_with_path(given)
    tensors = {keystr(path): leaf.detach() for path, leaf in leaves if isinstance(leaf, Tensor)}
    return tree_map_with_path(
        lambda path, leaf: Slot(keystr(path)) if isinstance(leaf, Tensor) else leaf, given
    ), tensors


def put_together(structure: Any, tensors: Mapping[str, Tensor]) -> Any:
    return tree_map_with_path(lambda _, leaf: tensors[leaf.place] if isinstance(leaf, Slot) else leaf, structure)


def optimizer_state(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """What the optimizer keeps, by the names of the weights."""
    names = parameter_names(module, optimizer)
    return {names[number]: slots for number, slots in optimizer.state_dict()["state"].items()}


def parameter_names(module: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Of the optimizer's weights, in the order in which it numbers them."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(id(parameter) not in names for parameter in held):
        raise CheckpointError("the optimizer has weights that are not the network's; make it from net.parameters()")
    return [names[id(parameter)] for parameter in held]


def groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    kept = [dict(group) for group in optimizer.state_dict()["param_groups"]]
    return [{key: value for key, value in group.items() if key not in ("params", "param_names")} for group in kept]


def random_state() -> dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}
    if torch.accelerator.is_available():
        state["device"] = torch.get_device_module().get_rng_state()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])
    if "device" in state and torch.accelerator.is_available():
        torch.get_device_module().set_rng_state(state["device"])
