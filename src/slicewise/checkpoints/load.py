"""`sw.load_checkpoint`: the last checkpoint that is whole, or nothing at all.

verify       every file against its checksum; a broken checkpoint is named, and the one before it is tried
read         beside what is there: into tensors of their own, laid out as this plan wants them
transaction  what is there for what was read, on every rank; where one cannot, all go back
"""

import os
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from slicewise.checkpoints.manifest import checkpoints, problem
from slicewise.checkpoints.placing import below, optimizer_state, room_for
from slicewise.checkpoints.ranks import Together
from slicewise.checkpoints.reading import Stored
from slicewise.checkpoints.save import finish
from slicewise.checkpoints.state import (
    has_state,
    module_of,
    parameter_names,
    put_together,
    random_state,
    set_random_state,
)
from slicewise.checkpoints.transaction import Transaction
from slicewise.errors import CheckpointError


class CheckpointWarning(UserWarning):
    """A checkpoint that is broken, and was passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was loaded: the network and all that was passed are as they were after `step`."""

    step: int
    folder: Path
    extra: Mapping[str, Any] = field(default_factory=dict)  # what was saved beside, and not passed to be loaded
    skipped: tuple[str, ...] = ()  # newer ones that are broken, and why

    def __getitem__(self, name: str) -> Any:
        return self.step if name == "step" else self.extra[name]


def load_checkpoint(
    folder: str | os.PathLike[str], net: Any, optimizer: torch.optim.Optimizer | None = None, **extra: Any
) -> Restored | None:
    """Go on from the last checkpoint in `folder`; None where there is none yet.

    Every rank calls it, with a network under any plan, on any number of ranks. `extra`: what save_checkpoint was given
    under the same names, to be loaded in place; what is not passed comes back in the result. A checkpoint whose
    checksums are wrong is named in a CheckpointWarning, and the one before it is loaded.
    Where loading fails, everything is as it was.

        restored = sw.load_checkpoint("runs/digits", net, optimizer, scheduler=scheduler)
        first = restored.step if restored else 0
    """
    finish()
    together = Together()
    found: list[Path] = together.of_the_first(lambda: checkpoints(Path(folder)))
    skipped: list[str] = []
    for path in found:
        each = together.every(problem(path, slice(together.rank, None, together.ranks)))
        broken = next((found for found in each if found), None)
        if broken is None:
            return _loaded(path, net, optimizer, extra, tuple(skipped), together)
        skipped.append(broken)
        if together.rank == 0:
            warnings.warn(f"a broken checkpoint is passed over: {broken}", CheckpointWarning, stacklevel=2)
    if skipped:
        raise CheckpointError(f"{folder}: none of {len(skipped)} checkpoints is whole; the last: {skipped[0]}")
    return None


def _loaded(
    path: Path,
    net: Any,
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
    skipped: tuple[str, ...],
    together: Together,
) -> Restored:
    module, stored = module_of(net), Stored(path, together)
    held = module.state_dict()
    together.attempted(lambda: _check(stored, module, held, optimizer, extra))
    stored.check_complete(held)
    own_random = f"random/{together.rank}"
    beside = [key for key in stored.below("extra/") if not stored.is_tensor(key)]
    objects = stored.objects(["groups", "network", own_random, *beside])
    tensors = stored.read(room_for(stored, module, held, optimizer, extra))
    values = {key.removeprefix("extra/"): put_together(objects[key], below(tensors, f"{key}/")) for key in beside}
    transaction = Transaction()
    for name, live in held.items():
        read = tensors[f"net/{name}"]
        if isinstance(live, Tensor):
            transaction.swap(live, read)
        else:
            own = partial(module.load_state_dict, strict=False)
            transaction.do(partial(own, {name: read}), partial(own, {name: live}))
    if optimizer is not None:
        transaction.load(
            optimizer, optimizer_state(module, optimizer, objects["groups"], tensors), optimizer.state_dict()
        )
    for name, given in extra.items():
        if has_state(given):
            transaction.load(given, values[name], deepcopy(given.state_dict()))
        else:
            transaction.update(given, values[name])
    if own_random in objects:  # a rank that was not there goes on with its own
        before = random_state()
        transaction.do(lambda: set_random_state(objects[own_random]), lambda: set_random_state(before))
    if objects["network"] is not None and hasattr(module, "randomness"):
        now = module.randomness
        transaction.do(
            lambda: setattr(module, "randomness", objects["network"]), lambda: setattr(module, "randomness", now)
        )
    try:
        together.attempted(transaction.run)
    except CheckpointError as error:
        transaction.undo()
        raise CheckpointError(f"{path}: {error}; everything is as it was before") from error
    kept = {name: value for name, value in values.items() if name not in extra}
    return Restored(step=stored.manifest.step, folder=path, extra=kept, skipped=skipped)


def _check(
    stored: Stored,
    module: nn.Module,
    held: Mapping[str, Any],
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Any],
) -> None:
    """Refuse what does not fit, before anything is read."""
    stored.check_network(held)
    if optimizer is not None:
        parameter_names(module, optimizer)
        if "groups" not in stored:
            raise CheckpointError(f"{stored.path}: was saved without an optimizer; load it without one")
    for name, given in extra.items():
        if f"extra/{name}" not in stored:
            known = sorted({key.split("/")[1] for key in stored.below("extra/")})
            raise CheckpointError(f"{stored.path}: has no {name!r}; it has {', '.join(known) or 'nothing beside'}")
        if not has_state(given) and not isinstance(given, dict):
            raise CheckpointError(
                f"{name} is a {type(given).__name__}, which is not loaded in place; leave it out: it is in the result"
            )
