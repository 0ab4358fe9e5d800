"""Models that others wrote: `torchvision:NAME`, `timm:NAME`, `file.py:factory`, `package.module:factory`."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from slicewise.errors import GraphError, RequestError, SlicewiseError, UnknownName
from slicewise.graph.capture import Sample

Made = tuple[nn.Module, Sample | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    """How a library of models lists them and makes one, without weights."""

    names: Callable[[Any], list[str]]
    make: Callable[[Any, str], nn.Module]
    input_shape: tuple[int, ...] = (3, 224, 224)


_LIBRARIES = {
    "torchvision": _Library(
        names=lambda library: library.models.list_models(),
        make=lambda library, name: library.models.get_model(name, weights=None),
    ),
    "timm": _Library(
        names=lambda library: library.list_models(),
        make=lambda library, name: library.create_model(name, pretrained=False),
    ),
}


def make_model(model: str, folder: Path | None = None) -> Made:
    """A factory returns the module, or (module, sample): a tensor, or a tuple or dict of them."""
    place, _, name = model.rpartition(":")
    with users_code(model):
        if place in _LIBRARIES:
            return _from_library(place, name)
        made = load_factory(place, name, folder)()
    module, sample = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module) or not (sample is None or tensors_of(sample)):
        raise GraphError(
            f"{model} returned {_described(made)}; a factory returns a module or (module, sample), "
            "the sample a tensor, or a tuple or dict of tensors"
        )
    return module, sample


def tensors_of(sample: Any) -> list[torch.Tensor]:
    """The tensors of a sample, in the order in which forward() takes them."""
    items = sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, tuple) else (sample,)
    return [item for item in items if isinstance(item, torch.Tensor)]


def resized(sample: Sample, shape: tuple[int, ...], model: str) -> Sample:
    """The same sample with items of another shape, where it is one tensor."""
    first, *others = tensors_of(sample)
    if tuple(first.shape[1:]) == shape:
        return sample
    if others:
        raise RequestError(
            f"{model} brings a sample of {1 + len(others)} tensors, each of its shape; leave out `input`"
        )
    changed: Sample = tree_map_only(torch.Tensor, lambda x: x.new_zeros(()).expand(*x.shape[:1], *shape), sample)
    return changed


@contextmanager
def users_code(name: str) -> Iterator[None]:
    """Whatever a user's own code ends with, exit() included, is an error that says whose it is."""
    try:
        yield
    except (SlicewiseError, MemoryError, KeyboardInterrupt):  # memory is this machine's affair, Ctrl-C the user's
        raise
    except BaseException as error:
        first_line = str(error).strip().split("\n")[0]
        raise RequestError(f"{name} failed: {type(error).__name__}: {first_line}") from error


def _described(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(item).__name__ for item in made)})"
    return type(made).__name__


def _from_library(place: str, name: str) -> Made:
    library = _LIBRARIES[place]
    try:
        imported = importlib.import_module(place)
    except ImportError as error:
        why = "which is not installed" if importlib.util.find_spec(place) is None else f"which fails to import: {error}"
        raise GraphError(f"{place}:{name} needs the package {place}, {why}; install it beside torch") from error
    names = library.names(imported)
    if name not in names:
        alike = get_close_matches(name, names, n=5) or names[:5]
        raise UnknownName(f"{place} model", name, alike, f" or another of its {len(names)} models")
    return library.make(imported, name), torch.zeros(()).expand(2, *library.input_shape)


def load_factory(place: str, name: str, folder: Path | None = None) -> Callable[..., Any]:
    """A function of a user's own: `name` in a module or in a file, which may also stand in `folder`."""
    with users_code(f"{place}:{name}"):
        module = _imported_file(place, folder) if place.endswith(".py") else _imported_module(place)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise GraphError(f"{place} has no factory {name!r}")
    return factory  # type: ignore[no-any-return]


def _imported_file(place: str, folder: Path | None) -> ModuleType:
    looked = [Path(place), *([folder / place] if folder is not None else [])]
    path = next((path for path in looked if path.exists()), None)
    if path is None:
        raise GraphError(f"{place}: no such file{f', nor in {folder}' if folder is not None else ''}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _imported_module(place: str) -> ModuleType:
    if not place:
        raise GraphError("no module is named; give package.module:factory or path/file.py:factory")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise GraphError(f"{place}: no such module ({error})") from error
