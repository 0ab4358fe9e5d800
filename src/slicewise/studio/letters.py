"""Slicings as the page holds them: a letter per mesh axis, `-` where an axis slices nothing."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from slicewise.cluster.mesh import Mesh
from slicewise.errors import SlicingError
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import check_legal, check_ties, contract

NOTHING = "-"


def letters(slicing: Slicing) -> str:
    """`NN-F`."""
    return "".join(NOTHING if dim is None else dim.value for dim in slicing)


def slicing_of(text: str, layer: str) -> Slicing:
    try:
        return _parsed(text)
    except ValueError as error:
        raise SlicingError(f"{layer}: {text!r} is no slicing; a letter of {', '.join(Dim)} or - per axis") from error


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Slicing:
    return tuple(None if letter == NOTHING else Dim(letter) for letter in text)


def slicings_of(texts: Sequence[Any], graph: LayerGraph, mesh: Mesh, known: set[tuple[str, str]]) -> dict[str, Slicing]:
    """One text per layer, in the graph's order; each must be legal. `known`: those that were checked before."""
    if len(texts) != len(graph) or not all(isinstance(text, str) for text in texts):
        raise SlicingError(f"{graph.name} has {len(graph)} layers, but {len(texts)} slicings were sent; load it again")
    found = {layer.name: slicing_of(text, layer.name) for layer, text in zip(graph, texts, strict=True)}
    check_ties(graph, found)
    for layer, text in zip(graph, texts, strict=True):
        if (layer.name, text) in known:
            continue
        check_legal(layer, found[layer.name], mesh)
        fixed = contract(layer, mesh)
        if fixed not in (None, found[layer.name]):
            raise SlicingError(f"{layer.name}: what ranks feed and get follows from the batch; leave it as it was")
        known.add((layer.name, text))
    return found


def all_letters(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> list[str]:
    return [letters(slicings[layer.name]) for layer in graph]
