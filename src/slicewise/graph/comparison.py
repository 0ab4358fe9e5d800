"""Is a captured model the network that a plan is for? If not: which layer, and in what."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph

_AT_REST = ("dropout", "feature_dropout", "drop_path", "to", "_to_copy", "type_as")  # where nothing drops, or is cast
_MODES = ("training", "train", "use_input_stats")


def difference(planned: LayerGraph, given: LayerGraph) -> str | None:
    """The first layer that is another one, in words; None where the networks differ in constants or modes at most.

    Constants are numbers that change neither shapes nor operators: a dropout's share, an epsilon, a slope. A dropout
    that drops nothing is not even a layer, nor is a cast to the dtype that a tensor has.
    """
    planned, given = _awake(planned), _awake(given)
    for mine, theirs in zip(planned.with_batch(1), given.with_batch(1), strict=False):
        for what, wanted, found in _aspects(mine, theirs):
            if wanted != found:
                return f"{mine.name}: the plan's network has {what} {wanted}, this model {found}"
    if len(planned) != len(given):
        longer, count = (planned, len(given)) if len(planned) > len(given) else (given, len(planned))
        owner = "the plan's network" if longer is planned else "this model"
        return f"{longer.layers[count].name}: only {owner} has this layer"
    return None


def _awake(graph: LayerGraph) -> LayerGraph:
    """The network without its dropouts and casts, and with forks named for what they read."""
    names: dict[str, str] = {}
    layers = []
    for layer in graph:
        inputs = tuple(names.get(source, source) for source in layer.inputs)
        if str(layer.options.get("op", "")).split(".")[1:2] in ([name] for name in _AT_REST):
            names[layer.name] = inputs[0]
            continue
        own = f"{inputs[0]}.fork" if layer.kind is Kind.FORK else layer.name
        names[layer.name] = own
        layers.append(replace(layer, name=own, inputs=inputs))
    return replace(graph, layers=tuple(layers))


def _aspects(mine: Layer, theirs: Layer) -> Iterator[tuple[str, Any, Any]]:
    """What makes a layer this layer: in words, planned, given."""
    for what, aspect in _ASPECTS.items():
        yield what, aspect(mine), aspect(theirs)
    for dim in dict.fromkeys([*mine.windows, *theirs.windows]):
        yield f"along {dim}", mine.windows.get(dim), theirs.windows.get(dim)
    wanted, found = (_structure(layer.options.get("arguments", {})) for layer in (mine, theirs))
    for name in dict.fromkeys([*wanted, *found]):
        yield name, wanted.get(name, "not given"), found.get(name, "not given")


def _operator(layer: Layer) -> str:
    return str(layer.options.get("op", layer.kind.value if layer.kind is not Kind.FORK else "several readers"))


def _structure(value: Any) -> Any:
    """Arguments without the numbers and dtypes among them, modes, which modules may switch, and devices."""
    if isinstance(value, dict):
        return {name: _structure(item) for name, item in value.items() if name not in (*_MODES, "device")}
    if isinstance(value, (list, tuple)):
        return [_structure(item) for item in value]
    if isinstance(value, str) and value.startswith(("torch.float", "torch.bfloat")):
        return "a dtype"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "a number" if is_number else value


def _letters(layer: Layer) -> tuple[str, ...]:
    """Of what it reads; graphs of earlier releases have no letter for attention's keys."""
    attends = layer.kind is Kind.ATTENTION
    return tuple(dims.replace(Dim.K, WHOLE) if attends else dims for dims in layer.input_dims)


_ASPECTS: Mapping[str, Callable[[Layer], Any]] = {
    "a layer called": lambda layer: layer.name,
    "the operator": _operator,
    "the inputs": lambda layer: layer.inputs,
    "weights of shape": lambda layer: {weight.name: weight.shape for weight in layer.weights},
    "buffers of shape": lambda layer: {buffer.name: buffer.shape for buffer in layer.buffers},
    "inputs of shape": lambda layer: layer.input_shapes,
    "outputs of shape": lambda layer: layer.shape,
    "groups": lambda layer: layer.groups,
    "the dims": lambda layer: (*_letters(layer), layer.dims),
}
