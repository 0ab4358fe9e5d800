"""What becomes clear once all layers are known: forks, shared weights, layers that nobody reads."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from slicewise.graph.dims import WHOLE
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer


def alive(layers: Iterable[Layer]) -> list[Layer]:
    """Inputs, outputs, norms that keep running statistics, and what these need."""
    kept: list[Layer] = []
    read: set[str] = set()
    for layer in reversed(list(layers)):
        if layer.name in read or layer.kind.has(Trait.EDGE) or _state(layer):
            kept.append(layer)
            read.update(layer.inputs)
    return kept[::-1]


def with_shared_weights(layers: Iterable[Layer]) -> list[Layer]:
    """Weights that several layers read are marked; norms that share running statistics alone keep channels whole."""
    ordered = list(layers)
    uses = Counter(name for layer in ordered for name in {weight.name for weight in layer.weights})
    states = Counter(_state(layer) for layer in ordered)
    seen: set[str] = set()
    result = []
    for layer in ordered:
        weights = tuple(
            replace(weight, shared=uses[weight.name] > 1, again=weight.name in seen) for weight in layer.weights
        )
        seen.update(weight.name for weight in weights)
        if _state(layer) and states[_state(layer)] > 1 and not weights:
            whole = layer.dims.replace("F", WHOLE)
            layer = replace(layer, dims=whole, input_dims=(whole, *layer.input_dims[1:]))
        result.append(replace(layer, weights=weights))
    return result


def _state(layer: Layer) -> str:
    reference = layer.options.get("arguments", {}).get("running_mean") if layer.kind is Kind.NORM else None
    return reference["buffer"] if reference else ""


def with_forks(layers: Iterable[Layer]) -> list[Layer]:
    """Every tensor with several consumers goes through a fork, right after its producer."""
    ordered = list(layers)
    uses = Counter(source for layer in ordered for source in layer.inputs)
    kinds = {layer.name: layer.kind for layer in ordered}
    letters = {layer.name: layer.dims for layer in ordered}
    for layer in ordered:  # what a consumer can slice, the fork can pass on
        for source, dims in zip(layer.inputs, layer.input_dims, strict=True):
            letters[source] = _known(letters[source], dims)
    result = []
    for layer in ordered:
        inputs = tuple(f"{source}.fork" if uses[source] > 1 else source for source in layer.inputs)
        options = dict(layer.options)
        if options.get("in_place") and (uses[layer.inputs[0]] > 1 or kinds[layer.inputs[0]].has(Trait.ALIASES)):
            del options["in_place"]
        result.append(replace(layer, inputs=inputs, options=options))
        if uses[layer.name] > 1:
            dims = letters[layer.name]
            result.append(
                Layer(
                    name=f"{layer.name}.fork",
                    kind=Kind.FORK,
                    inputs=(layer.name,),
                    input_shapes=(layer.shape,),
                    input_dims=(dims,),
                    shape=layer.shape,
                    dims=dims,
                    options={"dtype": layer.options["dtype"]} if layer.own_bytes else {},
                )
            )
    return result


def _known(mine: str, theirs: str) -> str:
    """My letters, and theirs where I have none; none comes twice."""
    result = mine
    for position, letter in enumerate(theirs.replace("C", "F")):
        if result[position] == WHOLE and letter not in result:
            result = result[:position] + letter + result[position + 1 :]
    return result
