"""A model by name: from the zoo, a saved graph, an exported program, a library, or a factory in the user's own file."""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.errors import GraphError, RequestError, UnknownName
from slicewise.extras import require_torch
from slicewise.graph.layer_graph import LayerGraph

if TYPE_CHECKING:
    from torch import nn

    from slicewise.graph.capture import Sample

PROGRAM = ".pt2"
LIBRARIES = ("torchvision", "timm")  # a name of theirs is one of their models, not a function of anybody's choice


def shipped_names() -> list[str]:
    files = resources.files("slicewise.graph").joinpath("captured").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def graph_of(
    model: "LayerGraph | nn.Module | str | Path",
    input_shape: tuple[int, ...] | None = None,
    *,
    sample: "Sample | None" = None,
    trust: bool = False,
) -> LayerGraph:
    """A graph itself, that of a name or a file, or that of a module run on `sample`."""
    if not isinstance(model, str | Path):
        check_trust("a graph" if isinstance(model, LayerGraph) else "a module", trust)
    if not isinstance(model, str | Path | LayerGraph):
        return _captured(model, input_shape, sample)
    if sample is not None:
        raise RequestError("a sample goes with a module; a name or a graph says what it is captured with")
    if isinstance(model, str | Path):
        return load_graph(model, input_shape, trust=trust)
    if input_shape not in (None, model.inputs[0].shape[1:]):
        raise RequestError(f"{model.name} was captured for samples of {model.inputs[0].shape[1:]}; leave out `input`")
    return model


def _captured(model: "nn.Module", input_shape: tuple[int, ...] | None, sample: "Sample | None") -> LayerGraph:
    from torch import nn

    from slicewise.graph.capture import capture

    if not isinstance(model, nn.Module):
        raise RequestError(f"a model is a name, a graph or a torch module (got {type(model).__name__})")
    if sample is None:
        raise RequestError("a module goes with a sample of its input: sample=torch.zeros(2, 3, 224, 224)")
    if input_shape is not None:
        raise RequestError("a module is captured for the shape of its sample; leave out `input`")
    return capture(model, sample)


def load_graph(
    model: str | Path,
    input: tuple[int, ...] | None = None,
    *,
    trust: bool = False,
    folder: Path | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> LayerGraph:
    """The LayerGraph of a zoo name, a saved graph (.json), or whatever else `capture_model` takes.

    Shipped and saved graphs need no torch, unless another input shape is asked for. `trust` allows an exported program,
    whose file can run code when it is loaded. A factory's file is looked for in `folder` too. `input` is the shape of
    one sample; `input_shape`, its name before, is deprecated.

    >>> len(sw.load_graph("alexnet"))
    23
    """
    if input_shape is not None:
        if input is not None:
            raise RequestError("`input` and `input_shape` are one thing; give `input`")
        warnings.warn("load_graph: input_shape= is deprecated; use input=", DeprecationWarning, stacklevel=2)
        input = input_shape
    model = str(model)
    check_trust(model, trust)
    if model in shipped_names():
        shipped = _shipped(model)
        if input in (None, shipped.inputs[0].shape[1:]):
            return shipped
    if model.endswith(".json"):
        return _saved(model, input)
    if not _elsewhere(model) and model not in shipped_names():  # said before torch is imported
        raise _unknown(model, shipped_names())
    return capture_model(model, input, trust=trust, folder=folder)


def stored_graph(model: str, input_shape: tuple[int, ...] | None = None) -> LayerGraph:
    """A shipped or a saved graph: what a file may name without any code being run for it."""
    if model.endswith(".json"):
        return _saved(model, input_shape)
    if model in shipped_names() and input_shape in (None, (shipped := _shipped(model)).inputs[0].shape[1:]):
        return shipped
    raise GraphError(
        f"{model}: this plan does not carry its network, and reading a plan runs no code; plan again, "
        "or pass the graph that `slicewise capture` makes"
    )


def _shipped(model: str) -> LayerGraph:
    text = resources.files("slicewise.graph").joinpath("captured", f"{model}.json").read_text()
    return LayerGraph.from_json(text, model)


def _saved(model: str, input_shape: tuple[int, ...] | None) -> LayerGraph:
    if not Path(model).exists():
        raise GraphError(f"{model}: no such file")
    saved = LayerGraph.load(Path(model))
    if input_shape not in (None, saved.inputs[0].shape[1:]):
        raise RequestError(f"{model} was captured for samples of {saved.inputs[0].shape[1:]}; leave out `input`")
    # a graph captured under a name that finds the model keeps it, so that its plans can be run
    return saved if saved.name in shipped_names() or ":" in saved.name else replace(saved, name=model)


def capture_model(
    model: str, input_shape: tuple[int, ...] | None = None, *, trust: bool = False, folder: Path | None = None
) -> LayerGraph:
    """Captured now, for two samples: a zoo name, an exported program (.pt2), `torchvision:NAME`, `timm:NAME`,
    `file.py:factory` or `package.module:factory`."""
    check_trust(model, trust)
    require_torch()
    import torch

    from slicewise.graph.capture import capture
    from slicewise.graph.zoo import ZOO

    if model.endswith(PROGRAM):
        from slicewise.graph.exported import capture_program

        return capture_program(model, input_shape, trust=trust)
    # networks of our own are captured without memory, which the weights of some and the volumes of others would fill
    with torch.device("meta" if model in ZOO else "cpu"):
        module, sample = build_model(model, input_shape, folder)
        return capture(module, sample, name=model).with_batch(2)


def build_model(
    model: str, input_shape: tuple[int, ...] | None = None, folder: Path | None = None
) -> "tuple[nn.Module, Sample]":
    """The module itself and a sample: a factory's own, or zeros of the shape that is asked for."""
    import torch

    from slicewise.graph.factories import make_model, resized
    from slicewise.graph.zoo import ZOO

    if model in ZOO:
        return ZOO[model].built(input_shape), torch.zeros(()).expand(2, *(input_shape or ZOO[model].input_shape))
    if not _elsewhere(model):
        raise _unknown(model, ZOO)
    check_runnable(model)
    module, sample = make_model(model, folder)
    if input_shape is None:
        if sample is None:
            raise RequestError(f"{model}: give the shape of one sample: `input=(3, 224, 224)`")
        return module, sample
    if sample is None:
        return module, torch.zeros(()).expand(2, *input_shape)  # no memory: nobody reads its values
    return module, resized(sample, input_shape, model)


def check_runnable(model: str) -> None:
    """Refuse what can be planned but not run."""
    if model.endswith(".json"):
        raise RequestError(f"{model} is a saved graph, which has no weights to run; plan the model itself")
    if model.endswith(PROGRAM):
        raise RequestError(f"{model} is an exported program, which cannot switch modes to run; plan the model itself")


def check_trust(model: str, trust: bool) -> None:
    """Refuse trust where nothing asks for it."""
    if trust and not model.endswith(PROGRAM):
        raise RequestError(f"`trust=True` is for an exported program ({PROGRAM}), and {model} is none; leave it out")


def names_code(model: str) -> bool:
    """Whether to load this model is to run code that its name points to: a factory, or an exported program."""
    return model.endswith(PROGRAM) or (":" in model and model.partition(":")[0] not in LIBRARIES)


def _elsewhere(model: str) -> bool:
    return ":" in model or model.endswith((".json", PROGRAM))


def _unknown(model: str, known: Iterable[str]) -> UnknownName:
    hint = ", torchvision:NAME, timm:NAME, path/file.py:factory, a saved graph (.json) or an exported program (.pt2)"
    return UnknownName("model", model, known, hint)
