"""`sw.export_checkpoint`: the weights alone, in files that need no slicewise to be read."""

import io
import os
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from slicewise.checkpoints.manifest import checkpoints, problem
from slicewise.checkpoints.placing import below
from slicewise.checkpoints.ranks import Together
from slicewise.checkpoints.reading import Stored
from slicewise.errors import CheckpointError, RequestError
from slicewise.saving import check_target, write_file


def export_checkpoint(folder: str | os.PathLike[str], file: str | os.PathLike[str]) -> int:
    """Write the weights of the last whole checkpoint in `folder` as a plain `state_dict`; returns its step.

    `model.pt` is read by `torch.load`, `model.safetensors` by safetensors. One process is enough, and reads the whole:

        sw.export_checkpoint("runs/digits", "digits.pt")
        model.load_state_dict(torch.load("digits.pt"))
    """
    target = Path(file)
    if target.suffix not in (".pt", ".pth", ".safetensors"):
        raise RequestError(f"{target}: unknown kind of file; choose from .pt, .pth, .safetensors")
    if target.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise RequestError(
            f"{target}: needs safetensors, which is not installed: `pip install 'slicewise[safetensors]'`"
        )
    check_target(target)
    stored = Stored(_last_whole(Path(folder)), Together(alone=True))
    read = stored.read({key: stored.room(key) for key in stored.below("net/")})
    write_file(target, _packed(below(read, "net/"), target.suffix))
    return stored.manifest.step


def _last_whole(folder: Path) -> Path:
    broken = []
    for path in checkpoints(folder):
        found = problem(path)
        if found is None:
            return path
        broken.append(found)
    raise CheckpointError(f"{folder}: no checkpoint" + (f" is whole; the last: {broken[0]}" if broken else ""))


def _packed(weights: dict[str, Tensor], suffix: str) -> bytes:
    if suffix == ".safetensors":
        from safetensors.torch import save

        return save({name: tensor.contiguous() for name, tensor in weights.items() if isinstance(tensor, Tensor)})
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    return buffer.getvalue()
