"""Where what is read goes: room for each tensor, laid out as what it belongs to on this rank, under this plan."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from slicewise.checkpoints.reading import Stored
from slicewise.checkpoints.state import Table, has_state, parameter_names, taken_apart
from slicewise.errors import CheckpointError


def room_for(
    stored: Stored,
    module: nn.Module,
    held: Mapping[str, Any],
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
) -> Table:
    """For every tensor of the checkpoint that this rank wants; `held` is the network's state."""
    room: Table = {}
    for name, value in held.items():
        tensor = value if isinstance(value, Tensor) else None
        room[f"net/{name}"] = stored.room(f"net/{name}", tensor, tensor.dtype if tensor is not None else None)
    if optimizer is not None:
        parameters, wanted = dict(module.named_parameters()), set(parameter_names(module, optimizer))
        for key in stored.below("optimizer/"):
            name, _, slot = key.removeprefix("optimizer/").rpartition("/")
            if name in wanted:
                # a count of steps is one number, even for a weight that is one number
                room[key] = stored.room(key, None if slot == "step" else parameters[name])
    places = _places(extra)
    room |= {key: stored.room(key, places.get(key)) for key in stored.below("extra/") if stored.is_tensor(key)}
    return room


def _places(extra: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that are there now, by the keys that they are saved under."""
    found: dict[str, Tensor] = {}
    for name, given in extra.items():
        _, tensors = taken_apart(given.state_dict() if has_state(given) else given)
        found |= {f"extra/{name}/{place}": tensor for place, tensor in tensors.items()}
    return found


def optimizer_state(
    module: nn.Module, optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], table: Table
) -> dict[str, Any]:
    """As `load_state_dict` takes it: numbers for weights, groups with the weights that they have here."""
    own = optimizer.state_dict()["param_groups"]
    if len(own) != len(groups):
        raise CheckpointError(f"the optimizer has {len(own)} groups of weights, the checkpoint's has {len(groups)}")
    numbers = {name: number for number, name in enumerate(parameter_names(module, optimizer))}
    state: dict[int, dict[str, Any]] = {number: {} for number in numbers.values()}
    for key, value in below(table, "optimizer/").items():
        name, _, slot = key.rpartition("/")
        state[numbers[name]][slot] = value
    kept = [{key: group[key] for key in ("params", "param_names") if key in group} for group in own]
    known = {number: slots for number, slots in state.items() if slots}
    return {"state": known, "param_groups": [{**saved, **mine} for saved, mine in zip(groups, kept, strict=True)]}


def below(table: Table, prefix: str) -> Table:
    return {key.removeprefix(prefix): value for key, value in table.items() if key.startswith(prefix)}
