"""Attention whose keys and values are passed round: `NAQ., NAQ., NAQ. -> NAQ.`.

Keys and values lie as the queries do: a device that has a part of the queries has that part of the keys, and sees the
others one after the other. Spelled so, layouts, legal slicings and memory follow from the letters.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer, Weight
from slicewise.graph.layer_graph import LayerGraph

ROWS_AT_ONCE = 128  # queries whose scores are there at once


def with_rings(graph: LayerGraph, names: Collection[str]) -> LayerGraph:
    """The same network; keys and values of the attention layers in `names` are passed round, those of others not."""
    wanted = set(names)
    layers = (_ringed(_gathered(layer), layer.name in wanted) for layer in graph)
    return replace(graph, layers=tuple(layers)) if wanted or any(map(passes_keys, graph)) else graph


def passes_keys(layer: Layer) -> bool:
    return layer.passes_keys


def can_ring(layer: Layer) -> bool:
    """Whether its keys and values can be passed round: both have as many of them, to be sliced."""
    return layer.kind is Kind.ATTENTION and all(dims[-2] == Dim.K for dims in layer.input_dims[1:3])


def _ringed(layer: Layer, wanted: bool) -> Layer:
    if not wanted or not can_ring(layer):
        return layer
    query, *keys = layer.input_dims[:3]
    masks = (dims.replace(Dim.K, WHOLE) for dims in layer.input_dims[3:])
    return replace(
        layer,
        input_dims=(query, *(dims.replace(Dim.K, Dim.Q) for dims in keys), *masks),
        weights=_spelled(layer.weights, Dim.K, WHOLE),
        buffers=_spelled(layer.buffers, Dim.K, WHOLE),
    )


def _gathered(layer: Layer) -> Layer:
    """As captured."""
    if not layer.passes_keys:
        return layer
    query, *keys = layer.input_dims[:3]
    extent = layer.input_shapes[1][-2]
    masks = (
        dims[:-1] + (Dim.K if shape[-1] == extent else WHOLE)
        for dims, shape in zip(layer.input_dims[3:], layer.input_shapes[3:], strict=True)
    )

    def restored(tensors: Iterable[Weight]) -> tuple[Weight, ...]:
        return tuple(
            replace(held, dims=held.dims[:-1] + Dim.K) if held.shape[-1] == extent else held for held in tensors
        )

    return replace(
        layer,
        input_dims=(query, *(dims[:-2] + Dim.K + WHOLE for dims in keys), *masks),
        weights=restored(layer.weights),
        buffers=restored(layer.buffers),
    )


def _spelled(tensors: Iterable[Weight], before: str, after: str) -> tuple[Weight, ...]:
    return tuple(replace(held, dims=held.dims.replace(before, after)) for held in tensors)
