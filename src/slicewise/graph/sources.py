"""A model by name: the shipped graphs, saved ones, and factories in the user's own files."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.errors import GraphError, RequestError, UnknownName
from slicewise.graph.layer_graph import LayerGraph

if TYPE_CHECKING:
    from torch import nn


def shipped_names() -> list[str]:
    files = resources.files("slicewise.graph").joinpath("captured").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def load_graph(model: str, input_shape: tuple[int, ...] | None = None) -> LayerGraph:
    """The LayerGraph of a zoo name, a saved graph (.json), or `file.py:factory` / `package.module:factory`.

    Shipped and saved graphs need no torch, unless another input shape is asked for.
    """
    if model in shipped_names():
        text = resources.files("slicewise.graph").joinpath("captured", f"{model}.json").read_text()
        shipped = LayerGraph.from_json(text, model)
        if input_shape in (None, shipped.inputs[0].shape[1:]):
            return shipped
    if model.endswith(".json"):
        if not Path(model).exists():
            raise GraphError(f"{model}: no such file")
        saved = LayerGraph.load(Path(model))
        if input_shape not in (None, saved.inputs[0].shape[1:]):
            raise RequestError(f"{model} was captured for samples of {saved.inputs[0].shape[1:]}; leave out --input")
        # a graph captured under a name that finds the model keeps it, so that its plans can be run
        return saved if saved.name in shipped_names() or ":" in saved.name else replace(saved, name=model)
    import torch

    from slicewise.graph.capture import capture

    module, shape = build_model(model, input_shape)
    return capture(module, torch.zeros(2, *shape), name=model)


def build_model(model: str, input_shape: tuple[int, ...] | None = None) -> "tuple[nn.Module, tuple[int, ...]]":
    """The module itself and the shape of one sample."""
    from slicewise.graph.zoo import ZOO

    if model.endswith(".json"):
        raise RequestError(f"{model} is a saved graph, which has no weights to run; plan the model itself")
    if model in ZOO:
        return ZOO[model].build(), input_shape or ZOO[model].input_shape
    place, _, name = model.rpartition(":")
    if not place:
        raise UnknownName("model", model, ZOO, ", a saved graph (.json), or path/file.py:factory")
    try:
        made = _factory(place, name)()
    except (GraphError, MemoryError):
        raise
    except Exception as error:
        raise GraphError(f"{model} failed: {type(error).__name__}: {error}") from error
    module, sample = made if isinstance(made, tuple) else (made, None)
    sample = sample[0] if isinstance(sample, tuple) else sample
    shape = input_shape or (tuple(sample.shape[1:]) if sample is not None else None)
    if shape is None:
        raise RequestError(f"{model}: give the shape of one sample, as in --input 3x224x224")
    return module, shape


def _factory(place: str, name: str) -> Callable[[], Any]:
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
