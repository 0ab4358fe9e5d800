"""Models that others wrote: `torchvision:NAME`, `timm:NAME`, `file.py:factory`, `package.module:factory`."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slicewise.errors import GraphError, UnknownName

Made = tuple[nn.Module, tuple[int, ...] | None]  # with the shape of one sample, where it is known


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


def make_model(model: str) -> Made:
    """A factory returns the module, or (module, sample)."""
    place, _, name = model.rpartition(":")
    try:
        if place in _LIBRARIES:
            return _from_library(place, name)
        made = load_factory(place, name)()
    except (GraphError, UnknownName, MemoryError):
        raise
    except Exception as error:
        raise GraphError(f"{model} failed: {type(error).__name__}: {error}") from error
    module, sample = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    sample = sample[0] if isinstance(sample, tuple) and sample else sample
    if not isinstance(module, nn.Module) or not (sample is None or isinstance(sample, torch.Tensor)):
        raise GraphError(f"{model} returned {_described(made)}; a factory returns a module or (module, sample tensor)")
    return module, None if sample is None else tuple(sample.shape[1:])


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
    return library.make(imported, name), library.input_shape


def load_factory(place: str, name: str) -> Callable[..., Any]:
    """A function of a user's own: `name` in a file or a module."""
    if place.endswith(".py"):
        if not Path(place).exists():
            raise GraphError(f"{place}: no such file")
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise GraphError(f"{place}: no such module ({error})") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise GraphError(f"{place} has no factory {name!r}")
    return factory  # type: ignore[no-any-return]
