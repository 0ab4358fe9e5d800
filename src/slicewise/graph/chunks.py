"""Local batch norms: statistics of chunks of the batch, each what one of the ranks holds under data parallelism.

Chunks are torch.chunk's: 29 samples on 4 ranks are 8, 8, 8 and 5. They follow from batch and ranks alone, so every
slicing of the norm gives the same numbers.
"""

from collections.abc import Collection
from dataclasses import replace
from math import prod

from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph


def with_local_statistics(graph: LayerGraph, ranks: int) -> LayerGraph:
    """The same network whose batch norms take statistics per chunk of batch / ranks samples, as DDP does."""

    def local(layer: Layer) -> Layer:
        if Dim.N not in layer.statistics and layer.chunk is None:
            return layer
        space = _spelled(layer, layer.statistics - {Dim.N})
        made = replace(layer, options={**layer.options, "statistics": space, "ranks": ranks})
        reason = refusal(made)
        if reason:
            raise PlanError(reason)
        return made

    return LayerGraph(name=graph.name, layers=tuple(local(layer) for layer in graph))


def with_exact_statistics(graph: LayerGraph) -> LayerGraph:
    """As captured, whatever `with_local_statistics` made of it."""

    def exact(layer: Layer) -> Layer:
        if layer.chunk is None:
            return layer
        options = {name: value for name, value in layer.options.items() if name != "ranks"}
        return replace(layer, options={**options, "statistics": _spelled(layer, layer.statistics | {Dim.N})})

    return LayerGraph(name=graph.name, layers=tuple(exact(layer) for layer in graph))


def _spelled(layer: Layer, dims: Collection[Dim]) -> str:
    return "".join(letter for letter in layer.dims if letter in dims)


def sizes(layer: Layer, start: int, stop: int) -> tuple[int, ...]:
    """Of the chunks that samples [start, stop) of a local batch norm consist of."""
    assert layer.chunk is not None
    return tuple(min(layer.chunk, stop - first) for first in range(start, stop, layer.chunk))


def refusal(layer: Layer) -> str | None:
    """Why a local batch norm cannot be trained with its batch, which DDP could not either; None if it can."""
    frozen = not layer.options.get("arguments", {}).get("training", True)
    if layer.chunk is None or frozen or layer.options["ranks"] == 1:
        return None
    batch, ranks = layer.shape[layer.dims.index(Dim.N)], layer.options["ranks"]
    if batch < ranks:
        return (
            f"--batchnorm local takes statistics per chunk of batch / ranks samples, and {batch} samples do not reach "
            f"{ranks} ranks; use --batchnorm exact, or a batch of {ranks} or more"
        )
    positions = prod(size for letter, size in zip(layer.dims, layer.shape, strict=True) if letter in layer.statistics)
    if positions == sizes(layer, 0, batch)[-1] == 1:
        return (
            f"{layer.name}: with --batchnorm local and {batch} samples on {ranks} ranks a chunk has one value per "
            f"channel, and no variance; use --batchnorm exact, or a batch of {2 * ranks}"
        )
    return None
