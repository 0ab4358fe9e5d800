"""Whether the fields of a graph fit together: what a schema cannot say.

Readers and writers of a tensor agree on its shape, windows give the extents that are written down, weights have the
extents of their letters. A graph that passes can be planned, and its numbers mean something.
"""

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from slicewise.errors import GraphError
from slicewise.graph.arguments import argument_complaints
from slicewise.graph.dims import BATCH, WHOLE, Dim
from slicewise.graph.geometry import geometry_complaints
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer, Weight

if TYPE_CHECKING:
    from slicewise.graph.layer_graph import LayerGraph

MOST_ITEMS = 10**13  # of a tensor
MOST_OPERATIONS = 10**18  # of a layer

_LETTERS = {*(dim.value for dim in Dim), BATCH}
_Shape = tuple[int, ...]
_Tensor = tuple[str, str, _Shape]  # where it stands, letters, shape


def check_graph(graph: "LayerGraph", origin: str) -> None:
    """Refuse a graph whose fields contradict each other, by the first contradiction."""
    for complaint in _complaints(graph):
        raise GraphError(f"{origin}: {complaint}")


def check_sizes(layer: Layer) -> None:
    """Refuse what no machine could hold: numbers this large overflow, and are a mistake."""
    for complaint in _size_complaints(layer):
        raise GraphError(f"{layer.name}: {complaint}")


def _complaints(graph: "LayerGraph") -> Iterator[str]:
    """Each check may rely on those before it: only the first complaint is ever asked for."""
    for layer in graph:
        for complaint in _layer_complaints(layer, graph):
            yield f"{layer.name}: {complaint}"
    if not graph.inputs:
        yield "no layer is an input"
    if not graph.outputs:
        yield "no layer is an output"
    if not any(_batch_sizes(layer) for layer in graph.inputs):
        yield "no input has a batch: one of its dims must be N"
    given = {size: layer.name for layer in graph if layer.kind.has(Trait.EDGE) for size in _batch_sizes(layer)}
    # inside, windows of a sample may stand in its place
    others = {size: layer.name for layer in graph for size in _batch_sizes(layer) if size % min(given)}
    if len(given | others) > 1:
        batches = sorted((given | others).items())
        yield "batches differ: " + ", ".join(f"{size} in {name}" for size, name in batches[:3])
    for leaf in graph.returns.leaves if graph.returns else ():
        if isinstance(leaf, int) and leaf >= len(graph.outputs):
            yield f"returns.leaves has {leaf}, but there are {len(graph.outputs)} outputs, counted from 0"
    yield from _weight_complaints(graph)


def _layer_complaints(layer: Layer, graph: "LayerGraph") -> Iterator[str]:
    for where, dims, shape in _tensors(layer):
        yield from _letter_complaints(where, dims, shape)
    yield from _reading_complaints(layer, graph)
    yield from _kind_complaints(layer)
    yield from geometry_complaints(layer)
    yield from _option_complaints(layer)
    yield from _size_complaints(layer)


def _tensors(layer: Layer) -> list[_Tensor]:
    inputs = zip(layer.input_dims, layer.input_shapes, strict=False)
    held = [("weights", layer.weights), ("buffers", layer.buffers)]
    return [
        ("dims", layer.dims, layer.shape),
        *((f"input_dims[{number}]", dims, shape) for number, (dims, shape) in enumerate(inputs)),
        *((f"{what}: {weight.name}", weight.dims, weight.shape) for what, weights in held for weight in weights),
    ]


def _letter_complaints(where: str, dims: str, shape: _Shape) -> Iterator[str]:
    if len(dims) != len(shape):
        yield f"{where} is {dims!r}, {len(dims)} letters for the {len(shape)} dims of shape {list(shape)}"
    named = [letter for letter in dims if letter != WHOLE]
    if unknown := set(named) - _LETTERS:
        yield f"{where} has the letter {min(unknown)!r}; choose from {', '.join(Dim)}, {BATCH} and {WHOLE}"
    if len(set(named)) < len(named):
        yield f"{where} is {dims!r}: a letter stands for one dim only; others are {WHOLE}"


def _reading_complaints(layer: Layer, graph: "LayerGraph") -> Iterator[str]:
    counts = {len(layer.inputs), len(layer.input_shapes), len(layer.input_dims)}
    if len(counts) > 1:
        yield (
            f"{len(layer.inputs)} inputs, {len(layer.input_shapes)} input_shapes and {len(layer.input_dims)} "
            "input_dims; there must be as many of each"
        )
    for number, (source, shape) in enumerate(zip(layer.inputs, layer.input_shapes, strict=True)):
        written = graph[source]
        if shape != written.shape:
            yield f"input_shapes[{number}] is {list(shape)}, but {source} writes {list(written.shape)}"
        if _batch_places(layer.input_dims[number]) != _batch_places(written.dims):
            yield (
                f"input_dims[{number}] is {layer.input_dims[number]!r}, but {source} writes {written.dims!r}: "
                "the batch must be the same dim for both"
            )


def _kind_complaints(layer: Layer) -> Iterator[str]:
    kind, inputs = layer.kind, layer.inputs
    if kind is Kind.INPUT and (inputs or layer.weights or layer.buffers):
        yield "an input reads no layers and no weights"
    if kind not in (Kind.INPUT, Kind.DERIVED) and not inputs:
        yield f"inputs is empty; a layer of kind {kind} reads at least one other"
    if kind.has(Trait.LONE) and len(inputs) != 1:
        yield f"{len(inputs)} inputs; a layer of kind {kind} reads one"
    if kind.has(Trait.COPIES) and (layer.dims, layer.shape) != (layer.input_dims[0], layer.input_shapes[0]):
        yield f"shape and dims must be those of its input: a layer of kind {kind} changes nothing"
    if kind.has(Trait.PRODUCT) and not (layer.weights or layer.buffers or len(inputs) > 1):
        yield f"weights is empty; a layer of kind {kind} multiplies its input with a weight"
    if Dim.C in layer.dims:
        yield f"dims is {layer.dims!r}: C is summed over, an output's channels are F"


def _option_complaints(layer: Layer) -> Iterator[str]:
    options = layer.options
    if spanned := set(options.get("statistics", "")) - _named(layer.dims):
        yield f"options.statistics has {', '.join(sorted(spanned))}, which dims, {layer.dims!r}, has not"
    if "ranks" in options and (layer.kind is not Kind.NORM or Dim.N not in layer.dims):
        yield f"options.ranks is for norms over samples; a layer of kind {layer.kind} with {layer.dims!r} has none"
    if "ranks" in options and Dim.N in options.get("statistics", Dim.N):
        yield "options.ranks needs options.statistics, without N: each rank's samples have statistics of their own"
    mask = options.get("mask")
    if mask is not None and len(mask) != len(layer.dims):
        yield f"options.mask is {mask!r}; it must have a letter for each of the {len(layer.dims)} dims"
    yield from argument_complaints(layer)


def _size_complaints(layer: Layer) -> Iterator[str]:
    for _, _, shape in _tensors(layer):
        if prod(shape) > MOST_ITEMS:
            yield f"shape {list(shape)} has {prod(shape):.3g} items; at most {MOST_ITEMS:.0e} have a meaning"
    if layer.flops() > MOST_OPERATIONS:
        yield f"computes {layer.flops():.3g} operations; at most {MOST_OPERATIONS:.0e} have a meaning"


def _weight_complaints(graph: "LayerGraph") -> Iterator[str]:
    seen: dict[str, Weight] = {}
    for layer in graph:
        names = [weight.name for weight in layer.weights]
        if len(set(names)) < len(names):
            yield f"{layer.name}: {Counter(names).most_common(1)[0][0]} stands twice in weights"
        for weight in layer.weights:
            first = seen.get(weight.name)
            if first is not None and first.shape != weight.shape:
                yield (
                    f"{layer.name}: {weight.name} has shape {list(weight.shape)}, and {list(first.shape)} in a layer "
                    "before it"
                )
            if weight.again != (first is not None):
                yield f"{layer.name}: {weight.name}: again must be {'true' if first else 'false'}: " + (
                    "a layer before it reads the weight too" if first else "no layer before it reads the weight"
                )
        seen |= {weight.name: weight for weight in layer.weights}


def _batch_places(dims: str) -> list[int]:
    return [place for place, letter in enumerate(dims) if letter in (Dim.N, BATCH)]


def _batch_sizes(layer: Layer) -> list[int]:
    return [layer.shape[place] for place in _batch_places(layer.dims)]


def _named(dims: str) -> set[str]:
    return set(dims) - {WHOLE, BATCH}
