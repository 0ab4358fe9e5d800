"""Local batch norms: statistics of chunks of the batch, each what one of the ranks holds under data parallelism.

Chunks are torch.chunk's: 29 samples on 4 ranks are 8, 8, 8 and 5. They follow from batch and ranks alone, so every
slicing of the norm gives the same numbers.
"""

from dataclasses import replace
from math import prod

from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph


def with_local_statistics(graph: LayerGraph, ranks: int) -> LayerGraph:
    """The same network whose batch norms take statistics per chunk of batch / ranks samples, as DDP does."""

    def local(layer: Layer) -> Layer:
        space = layer.options["statistics"].removeprefix(Dim.N)
        made = replace(layer, options={**layer.options, "statistics": space, "ranks": ranks})
        reason = refusal(made)
        if reason:
            raise PlanError(reason)
        return made

    layers = with_exact_statistics(graph).layers
    over_samples = [Dim.N in layer.options.get("statistics", "") for layer in layers]
    return replace(
        graph,
        layers=tuple(local(layer) if over else layer for layer, over in zip(layers, over_samples, strict=True)),
    )


def with_exact_statistics(graph: LayerGraph) -> LayerGraph:
    """As captured, whatever `with_local_statistics` made of it."""

    def exact(layer: Layer) -> Layer:
        options = {name: value for name, value in layer.options.items() if name != "ranks"}
        return replace(layer, options={**options, "statistics": Dim.N + options["statistics"]})

    return replace(graph, layers=tuple(exact(layer) if "ranks" in layer.options else layer for layer in graph))


def cut(samples: int, chunk: int) -> tuple[int, ...]:
    """The sizes of the chunks that so many samples have."""
    return tuple(min(chunk, samples - first) for first in range(0, samples, chunk))


def refusal(layer: Layer) -> str | None:
    """Why a batch norm cannot be trained with its batch, which torch could not either; None if it can."""
    if Dim.N in layer.statistics and _positions(layer) == 1:
        return f"{layer.name}: one value per channel has no variance; train with a larger batch"
    if layer.chunk is None or layer.options["ranks"] == 1:
        return None
    batch, ranks = layer.shape[layer.dims.index(Dim.N)], layer.options["ranks"]
    if batch < ranks:
        return (
            f"batchnorm local takes statistics per chunk of batch / ranks samples, and {batch} samples do not reach "
            f"{ranks} ranks; use batchnorm exact, or a batch of {ranks} or more"
        )
    if _positions(layer) == cut(batch, layer.chunk)[-1] == 1:
        return (
            f"{layer.name}: with batchnorm local and {batch} samples on {ranks} ranks a chunk has one value per "
            f"channel, and no variance; use batchnorm exact, or a batch of {2 * ranks}"
        )
    return None


def _positions(layer: Layer) -> int:
    """How many values a norm's mean is a mean of, along the dims that it spans."""
    return prod(size for letter, size in zip(layer.dims, layer.shape, strict=True) if letter in layer.statistics)
